"""procrustean nets"""

from __future__ import annotations

from dataclasses import dataclass

import tyro


@dataclass(frozen=True)
class Nets:
    """List the networks: parameters, features, and where the paper's groups end; or show those of one."""

    name: tyro.conf.Positional[str | None] = None
    """Network to show, timm:NAME and torchvision:NAME included; without it those of this library are listed."""

    def run(self) -> int:
        from procrustean.base.console import write_result
        from procrustean.base.table_formats import Cell, Column, Table
        from procrustean.nets.build import layers_of
        from procrustean.nets.table import NETS

        names = NETS if self.name is None else [self.name]
        rows = []
        for name in names:
            net = layers_of(name)
            # The head for 1000 classes is what published counts include.
            weights = sum(p.numel() for p in net.parameters()) + (net.features + 1) * 1000
            side = f"1/{net.shrinks}" if net.shrinks else ""
            rows.append((name, f"{weights:,}", str(net.features), side, net.groups.get(net.second_group, "")))
        columns = ("network", "parameters, 1000 classes", "features", "side of the last map", "second group")
        headings = tuple(Column(c, c, numeric=c in columns[1:4]) for c in columns)
        table = Table("Networks", headings, tuple(tuple(Cell(text) for text in row) for row in rows))
        if self.name is None:
            more = "Of other libraries: timm:NAME, torchvision:NAME. procrustean nets NAME shows the layers of one."
        else:
            more = "\n".join(f"{group}: backbone.{path}" for group, path in layers_of(self.name).groups.items())
        write_result(table, more)
        return 0
