// What a Graph is made of: Boost.Graph's adjacency list. graph.cpp and algorithm.cpp alone include it, as it
// costs every file that does seconds to compile.
#pragma once

#include <boost/graph/adjacency_list.hpp>

#include "ir/graph.h"

namespace attnfuse {

struct Use {
  int position = 0;
};  // operand position, redundant with edge order, kept for dot

struct Graph::Adjacency {
  using List = boost::adjacency_list<boost::vecS, boost::vecS, boost::bidirectionalS, Node, Use>;
  List list;
};

}  // namespace attnfuse
