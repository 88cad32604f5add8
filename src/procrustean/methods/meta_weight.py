"""Meta-Weight-Net (Shu et al. 2019): a tiny network, taught by a small balanced set, weights samples by their loss."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from procrustean.balance.objectives import Objective
from procrustean.balance.samplers import in_turn
from procrustean.balance.types import Batch, Clock, Problem
from procrustean.data.recipes import published
from procrustean.methods.lookahead import effects
from procrustean.methods.method import Method, Stage
from procrustean.nets.classifier import Classifier

#: SGD of the weighting network.
RATE, MOMENTUM, DECAY = 1e-5, 0.9, 5e-4
#: Hidden units of it.
HIDDEN = 100


class WeightNet(nn.Module):
    """From the loss of a sample to its weight in (0, 1); carries the state of its own SGD."""

    def __init__(self) -> None:
        super().__init__()
        # Values come from `draw`, at a moment when the generator of torch is seeded for it.
        self.first = nn.utils.skip_init(nn.Linear, 1, HIDDEN)
        self.second = nn.utils.skip_init(nn.Linear, HIDDEN, 1)
        for name, parameter in list(self.named_parameters()):
            self.register_buffer("velocity_" + name.replace(".", "_"), torch.zeros_like(parameter))

    def draw(self, net: Classifier) -> None:
        """PyTorch's initial values for linear layers; nothing of the classifier changes."""
        self.first.reset_parameters()
        self.second.reset_parameters()
        for velocity in self.buffers():
            velocity.zero_()

    def forward(self, losses: Tensor) -> Tensor:
        with torch.autocast(losses.device.type, enabled=False):
            inputs = losses.to(self.first.weight.dtype)[:, None]
            weights: Tensor = torch.sigmoid(self.second(F.relu(self.first(inputs))))[:, 0]
        return weights

    def learn(self, loss: Tensor) -> None:
        """One step of SGD with Nesterov momentum."""
        with torch.autocast(loss.device.type, enabled=False):
            gradients = torch.autograd.grad(loss, tuple(self.parameters()))
        with torch.no_grad():
            for parameter, velocity, slope in zip(self.parameters(), self.buffers(), gradients, strict=True):
                slope = slope.add(parameter, alpha=DECAY)
                velocity.mul_(MOMENTUM).add_(slope)
                parameter.sub_(RATE * (slope + MOMENTUM * velocity))


class MetaWeighted(Objective):
    """Cross-entropy weighted by a network that has just learnt from the second stream of images."""

    compilable = False  # the compiler does not differentiate forwards

    def __init__(self, *, norm: bool) -> None:
        super().__init__()
        self.norm = norm
        self.weigher = WeightNet()

    def forward(self, net: nn.Module, batch: Batch, clock: Clock) -> Tensor:
        losses, slopes = effects(net, batch, self.minimised, clock.lr)
        (shares,) = torch.autograd.grad(self.minimised(losses.requires_grad_()), losses, create_graph=True)
        self.weigher.learn(torch.sum(shares * slopes))
        losses = F.cross_entropy(net(batch.x), batch.y, reduction="none")
        with torch.no_grad():
            weights = self.weigher(losses)
        return self.weighted(losses, weights)

    def show(self, net: nn.Module, batch: Batch, clock: Clock) -> None:
        net(batch.x)  # the looks ahead leave the statistics alone

    def minimised(self, losses: Tensor) -> Tensor:
        """As a function of the losses alone; as published the weights depend on the parameters through them, too."""
        return self.weighted(losses, self.weigher(losses if self.norm else losses.detach()))

    def weighted(self, losses: Tensor, weights: Tensor) -> Tensor:
        """The scalar that is minimised, with weights that add up to 1 or as they are."""
        if not self.norm:
            return torch.mean(weights * losses)
        total = weights.sum()
        return torch.sum(weights * losses) / torch.where(total == 0, 1.0, total)


def meta_weight(problem: Problem, *, norm: bool = True) -> Method:
    """Weights of samples as a function of their loss, which a balanced set of 10 images per class teaches.

    Formula: V(l) = sigmoid(W_2 relu(W_1 l + b_1) + b_2), 100 hidden units; v_i = V(l_i) / sum_j V(l_j), l_i = CE;
    w'(V) = w - lr * grad_w sum_i v_i l_i; V descends on the mean CE of w'(V) on a batch of the balanced set;
    then w descends on sum_i v_i l_i with the new V.

    Args:
        norm: weights that add up to 1 in each batch and a gradient through V's input, as published; false takes the
            mean of V(l_i) l_i and no such gradient.
    """
    objective = MetaWeighted(norm=norm)
    stage = Stage(objective, extra=in_turn, extra_from="meta", reshape=objective.weigher.draw)
    own = {
        "epochs": 100, "batch_size": 100, "nesterov": True, "weight_decay": 5e-4, "warmup_epochs": 0,
        "schedule": "steps", "milestones": (0.8, 0.9), "decay": 0.1,
    }  # fmt: skip
    return Method(stages=(stage,), label="Meta-Weight", own=published(problem.source, own))
