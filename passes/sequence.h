// What a kernel knows of sequences that have lengths of their own: the storage form's tensors, and scalars
// read from them.
#pragma once

#include "ir/tile.h"

namespace attnfuse {

// Nothing for plain storage. Tensors are added to the expressions; their arguments are left to the lowering.
void add_sequences(TileProgram& program);

}  // namespace attnfuse
