// An expression along one axis with its derivatives in forward mode, for the reference's backward: a value
// and a tangent at every element. The rules stand here once more, apart from the table's, so that neither can
// agree with its own mistake.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "runtime/row_expression.h"

namespace attnfuse {

// The change of an operation's result when its operands change by `tangents`. Where both operands of min or
// max are equal the first one counts; abs does not change at 0.
double tangent(ScalarOp op, std::span<const double> x, std::span<const double> tangents);

class DualRow {
 public:
  // What a row has derivatives by: the leaves (an input, the scores, weights, a result), and elements of
  // captured tensors marked `grad`.
  struct Source {
    NodeId node;
    TensorId tensor;  // of captured ones
  };
  // The row of a leaf.
  using Leaves = std::function<std::span<const double>(NodeId)>;
  // Receives what a loss changes by, for every element of every source that it depends on.
  using Receive = std::function<void(const Source& source, std::size_t x, double gradient)>;

  // As RowExpression, which it is held against.
  DualRow(const Graph& graph, NodeId root, Axis along, std::int64_t length, const SizeValues& sizes,
          const CapturedTensors& captured);

  // Values at a position, valid until the next call.
  std::span<const double> operator()(const Position& at, const Leaves& leaves = {});
  // At the position of the last call: `gradients` of a loss by every element of the row, in; by the sources,
  // out. What has gradient zero is left out, whatever it holds.
  void pull(std::span<const double> gradients, const Receive& receive);
  // Where in its tensor, row-major, the element x of a captured source lies; -1 in an empty one.
  std::int64_t element(const Source& source, std::size_t x) const;

  bool reads(NodeId leaf) const;

 private:
  struct Step {
    NodeId node;
    std::vector<std::size_t> operands;  // step numbers
    bool wide = false;                  // one value per element, else one
    bool is_source = false;
    std::vector<double> values, tangents;
    std::vector<std::size_t> touched;  // elements whose tangent may be other than zero
    std::size_t length() const { return values.size(); }
  };

  void evaluate(Step& step, const Position& at, const Leaves& leaves);
  double gathered(const Step& step, TensorId tensor, std::size_t x) const;
  std::int64_t offset(const Step& step, const TensorInfo& tensor, const std::vector<std::int64_t>* strides,
                      std::size_t x) const;
  double value(std::size_t step, std::size_t x) const {
    return steps_[step].values[steps_[step].wide ? x : 0];
  }
  double change(std::size_t step, std::size_t x) const {
    return steps_[step].tangents[steps_[step].wide ? x : 0];
  }

  bool mixes(std::size_t source) const;
  void push(std::size_t source, std::span<const std::size_t> elements);
  void touch(Step& step);
  void differentiate(Step& step, std::size_t x);
  void send(std::size_t source, std::span<const double> gradients, const Receive& receive);

  const Graph* graph_;
  Axis along_;
  std::size_t length_;
  SizeValues sizes_;
  const CapturedTensors* captured_;
  std::vector<Step> steps_;  // in execution order; the last one is the root
  std::vector<double> row_;
};

}  // namespace attnfuse
