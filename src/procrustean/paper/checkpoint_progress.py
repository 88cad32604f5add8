"""How much of a run earlier calls have done, by its last checkpoint."""

from __future__ import annotations

import math
from pathlib import Path

from procrustean.base.errors import RunError
from procrustean.engine.training import Position
from procrustean.records.checkpoints import kept_checkpoints
from procrustean.records.run_spec import RunSpec
from procrustean.runs.preparing import recipe_of
from procrustean.runs.training_sizes import training_images


def share_done(folder: Path, config: RunSpec) -> float:
    """Share of its epochs that the run in a folder has behind it; 0 where it would begin anew."""
    try:
        checkpoints = kept_checkpoints(folder)
        if not checkpoints:
            return 0.0
        position = Position.from_json(checkpoints[-1]["position"], str(folder))
    except RunError:  # said when the run goes on
        return 0.0
    recipe, images = recipe_of(config), training_images(config)
    steps = math.inf if images is None else max(1, math.ceil(images / recipe.batch_size))
    return min(1.0, (position.records + position.step / steps) / recipe.epochs)
