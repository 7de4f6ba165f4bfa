#include <utility>

#include "ir/tile.h"

namespace attnfuse {

template <class Alternative>
Statement::Statement(Alternative alternative) : kind(std::move(alternative)) {}

Statement::Statement(const Statement& other) = default;
Statement::Statement(Statement&& other) noexcept = default;
Statement& Statement::operator=(const Statement& other) = default;
Statement& Statement::operator=(Statement&& other) noexcept = default;
Statement::~Statement() = default;

template Statement::Statement(Let);
template Statement::Statement(Assign);
template Statement::Statement(Put);
template Statement::Statement(Take);
template Statement::Statement(Acquire);
template Statement::Statement(Signal);
template Statement::Statement(Advance);
template Statement::Statement(Fill);
template Statement::Statement(Move);
template Statement::Statement(Mma);
template Statement::Statement(MmaWait);
template Statement::Statement(Map);
template Statement::Statement(PairColumns);
template Statement::Statement(RowReduce);
template Statement::Statement(LaneReduce);
template Statement::Statement(ScaleRows);
template Statement::Statement(Barrier);
template Statement::Statement(Scrub);
template Statement::Statement(Store);
template Statement::Statement(BulkStore);
template Statement::Statement(BulkDrain);
template Statement::Statement(Restore);
template Statement::Statement(MapRows);
template Statement::Statement(MergeShares);
template Statement::Statement(Fold);
template Statement::Statement(StoreScalars);
template Statement::Statement(Chain);
template Statement::Statement(If);
template Statement::Statement(While);
template Statement::Statement(TileLoop);
template Statement::Statement(Roles);
template Statement::Statement(WorkItems);
template Statement::Statement(Doubt);
template Statement::Statement(Turn);
template Statement::Statement(MapSlot);

}  // namespace attnfuse
