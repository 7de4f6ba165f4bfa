#include "bench/plot.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace attnfuse::bench {
namespace {

constexpr double kWidth = 720, kHeight = 340, kLeft = 70, kRight = 190, kTop = 34, kBottom = 44;
constexpr const char* kColours[] = {"#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377"};

// A logarithmic axis between whole powers of its base.
struct Axis {
  double base, from, to;  // exponents
  double place(double value) const { return (std::log(value) / std::log(base) - from) / (to - from); }
};

template <class Pick>
Axis axis(const Plot& plot, double base, Pick pick) {
  double least = INFINITY, most = -INFINITY;
  for (const Curve& curve : plot.curves)
    for (const auto& point : curve.points) {
      least = std::min(least, std::log(pick(point)) / std::log(base));
      most = std::max(most, std::log(pick(point)) / std::log(base));
    }
  if (!(least <= most)) least = most = 0;
  const double from = std::floor(least + 1e-9), to = std::ceil(most - 1e-9);
  return {base, from, std::max(to, from + 1)};
}

std::string escaped(const std::string& text) {
  std::string result;
  for (char c : text)
    result += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
  return result;
}

class Drawing {
 public:
  Drawing(const Plot& plot, double top) : plot_(plot), top_(top) {
    x_ = axis(plot, 2, [](const auto& p) { return p.first; });
    y_ = axis(plot, 10, [](const auto& p) { return p.second; });
  }

  std::string text() {
    label(kLeft, kTop - 14, "start", plot_.title);
    label((kLeft + kWidth - kRight) / 2, kHeight - 8, "middle", plot_.x_name);
    label(kLeft, kTop - 1, "end", plot_.y_name);
    for (double e = x_.from; e <= x_.to; ++e) {
      const double x = across(std::pow(2, e));
      line(x, kTop, x, kHeight - kBottom, "#ddd", "");
      label(x, kHeight - kBottom + 16, "middle", fmt::format("{}", std::pow(2, e)));
    }
    for (double e = y_.from; e <= y_.to; ++e) {
      const double y = down(std::pow(10, e));
      line(kLeft, y, kWidth - kRight, y, "#ddd", "");
      label(kLeft - 6, y + 4, "end", fmt::format("{}", std::pow(10, e)));
    }
    double legend = kTop + 10;
    for (const Curve& curve : plot_.curves) {
      draw(curve);
      const char* dash = curve.dashed ? " stroke-dasharray=\"5 4\"" : "";
      line(kWidth - kRight + 14, legend, kWidth - kRight + 40, legend, colour(curve), dash);
      label(kWidth - kRight + 46, legend + 4, "start", curve.name);
      legend += 17;
    }
    return text_;
  }

 private:
  static const char* colour(const Curve& curve) {
    return kColours[std::size_t(curve.colour) % std::size(kColours)];
  }
  double across(double x) const { return kLeft + x_.place(x) * (kWidth - kLeft - kRight); }
  double down(double y) const { return kHeight - kBottom - y_.place(y) * (kHeight - kTop - kBottom); }

  void line(double x1, double y1, double x2, double y2, const char* stroke, const char* more) {
    text_ += fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\"{}/>\n",
                         x1, top_ + y1, x2, top_ + y2, stroke, more);
  }
  void label(double x, double y, const char* anchor, const std::string& text) {
    text_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, top_ + y,
                         anchor, escaped(text));
  }
  void draw(const Curve& curve) {
    std::string points;
    for (const auto& [x, y] : curve.points)
      points += fmt::format("{}{:.1f},{:.1f}", points.empty() ? "" : " ", across(x), top_ + down(y));
    text_ += fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.6\"{}/>\n",
                         points, colour(curve), curve.dashed ? " stroke-dasharray=\"5 4\"" : "");
  }

  const Plot& plot_;
  double top_;
  Axis x_, y_;
  std::string text_;
};

}  // namespace

std::string svg(const std::vector<Plot>& plots) {
  std::string text = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" font-family=\"sans-serif\" "
      "font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
      kWidth, kHeight * double(plots.size()));
  for (std::size_t n = 0; n < plots.size(); ++n) text += Drawing(plots[n], kHeight * double(n)).text();
  return text + "</svg>\n";
}

}  // namespace attnfuse::bench
