"""Both pools of blocks and the tiers behind them: what there is, and whether a demand can be met."""

from __future__ import annotations

from dataclasses import dataclass

from holotron.engine.blocks import HostTier, Pool
from holotron.engine.copies import copies_for
from holotron.engine.filing import DiskTier
from holotron.model.cache import Cache
from holotron.model.config import DecoderConfig


@dataclass(slots=True)
class Demand:
    """Blocks somebody needs on the device, of each pool."""

    rows: int = 0  # slots to be filled: new blocks, copies, and those that come back from the host
    pages: int = 0
    returning_rows: int = 0  # of these, the ones that come back from the host
    returning_pages: int = 0
    kept_rows: int = 0  # idle blocks on the device that will be pinned: they cannot make room for the others
    kept_pages: int = 0

    def __add__(self, other: Demand) -> Demand:
        # Field by field: whenever somebody waits, this is done once for everybody who runs.
        return Demand(
            self.rows + other.rows,
            self.pages + other.pages,
            self.returning_rows + other.returning_rows,
            self.returning_pages + other.returning_pages,
            self.kept_rows + other.kept_rows,
            self.kept_pages + other.kept_pages,
        )


class Pools:
    """Both pools and the host tier behind them."""

    def __init__(
        self,
        config: DecoderConfig,
        cache: Cache,
        *,
        page_size: int,
        host_bytes: int,
        padded: bool = False,
        disk: DiskTier | None = None,
    ) -> None:
        """`padded`: the last row and the last page belong to nobody; sequences that fill up a batch work on them."""
        self.cache = cache
        self.page_size = page_size
        self.host = HostTier(host_bytes)
        rows, pages = len(cache.ssm_RLHPN) - padded, len(cache.kv_ZL2zkD) - padded
        self.padding = (rows, pages) if padded else None
        self.disk = disk
        self.copies = copies_for(cache.kv_ZL2zkD.device)
        self.rows = Pool("state", [tensor[:rows] for tensor in cache.row_tensors], self.host, self.copies, disk)
        self.pages = Pool("page", [cache.kv_ZL2zkD[:pages]], self.host, self.copies, disk)
        self.has_attention = bool(config.layers("*"))
        self.has_state = config.recurrent  # without one, a memory can be cut back to any length

    @property
    def filing(self) -> bool:
        """Whether something is on its way to or from a file."""
        return self.disk is not None and self.disk.under_way > 0

    def collect(self, wait: float = 0.0) -> None:
        """Note what has been written or read meanwhile; with nothing else to do, wait a while for it."""
        if self.disk is not None:
            self.disk.collect(wait)

    def close(self) -> None:
        """Give up files and pinned memory."""
        if self.disk is not None:
            self.disk.close()
        self.rows.close()
        self.pages.close()

    def pages_for(self, tokens: int) -> int:
        return -(-tokens // self.page_size) if self.has_attention else 0

    def short(self, demand: Demand) -> bool:
        """Whether something has to leave the device to meet the demand."""
        return demand.rows > self.rows.free or demand.pages > self.pages.free

    def missing(self, demand: Demand) -> Demand:
        """What has to leave the device to meet the demand."""
        return Demand(max(0, demand.rows - self.rows.free), max(0, demand.pages - self.pages.free))

    def could_fit(self, demand: Demand) -> bool:
        """Whether the device has the slots, given room on the host for what is idle there now."""
        rows, pages = self.rows, self.pages
        return (
            demand.rows <= rows.free + rows.idle - demand.kept_rows
            and demand.pages <= pages.free + pages.idle - demand.kept_pages
        )

    def fits(self, demand: Demand) -> bool:
        """Whether the demand can be met by moving idle blocks to the host.

        A block that comes back changes places with one that leaves, so a full host does not stand in the way of it (the
        host tier is over its limit by one block for as long as the exchange takes).
        """
        if not self.could_fit(demand):
            return False
        row, page = self.rows.block_bytes, self.pages.block_bytes
        arriving = max(0, demand.rows - self.rows.free) * row + max(0, demand.pages - self.pages.free) * page
        leaving = demand.returning_rows * row + demand.returning_pages * page
        return arriving - leaving <= self.host.free
