"""Recurrent layers, step by step. torch.vmap does not support the fused kernels of torch."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import PackedSequence

from tacit.errors import TacitError
from tacit.tasks.models.dropout import MaskStream

States = tuple[Tensor, ...]
"""The state of one layer in one direction: h (B, H), and of an LSTM also c."""


class _Stepwise(nn.RNNBase):
    """The loop over layers, directions and steps. Subclasses define one step.

    A packed sequence is passed to torch's own kernel, which the engine that uses no vmap supports.
    """

    stream: MaskStream
    states: int  # tensors of the state

    @abstractmethod
    def step(self, from_input: Tensor, from_state: Tensor, states: States) -> States:
        """Return the next states from W x + b and W h + b, each (B, gates · H)."""

    def forward(self, input: Any, hx: Any = None) -> Any:
        if isinstance(input, PackedSequence):
            if self.training and self.dropout > 0:
                raise TacitError("a recurrent layer has no dropout for packed sequences: set its dropout to 0")
            return super().forward(input, hx)
        batched = input.dim() == 3
        x = input if batched else input.unsqueeze(1)
        x = x.transpose(0, 1) if self.batch_first and batched else x
        given = () if hx is None else (hx,) if isinstance(hx, Tensor) else tuple(hx)
        begin = [state if batched else state.unsqueeze(1) for state in given] or self._zeros(x)
        directions, ends = 1 + self.bidirectional, list[States]()
        for layer in range(self.num_layers):
            parts = []
            for k in range(directions):
                row = layer * directions + k
                part, end = self._direction(x, layer, k == 1, tuple(state[row] for state in begin))
                parts.append(part)
                ends.append(end)
            x = torch.cat(parts, -1)
            if self.training and self.dropout > 0 and layer < self.num_layers - 1:
                x = self.stream.drop(x, self.dropout)
        x = x.transpose(0, 1) if self.batch_first and batched else x
        last = [torch.stack(state) for state in zip(*ends, strict=True)]
        final = tuple(last) if batched else tuple(state.squeeze(1) for state in last)
        return (x if batched else x.squeeze(1)), (final[0] if self.states == 1 else final)

    def _zeros(self, x: Tensor) -> list[Tensor]:
        rows, sizes = self.num_layers * (1 + self.bidirectional), (self.proj_size or self.hidden_size, self.hidden_size)
        return [x.new_zeros(rows, x.shape[1], size) for size in sizes[: self.states]]

    def _direction(self, x: Tensor, layer: int, backwards: bool, states: States) -> tuple[Tensor, States]:
        """Return the outputs (T, B, H) of one layer in one direction, and its last states."""
        suffix = f"l{layer}{'_reverse' if backwards else ''}"
        biases = (f"bias_ih_{suffix}", f"bias_hh_{suffix}") if self.bias else ()
        b_input, b_state = (getattr(self, name) for name in biases) if biases else (None, None)
        from_input = F.linear(x, getattr(self, f"weight_ih_{suffix}"), b_input)
        w_state, project = getattr(self, f"weight_hh_{suffix}"), getattr(self, f"weight_hr_{suffix}", None)
        outputs = []
        for t in reversed(range(len(x))) if backwards else range(len(x)):
            states = self.step(from_input[t], F.linear(states[0], w_state, b_state), states)
            if project is not None:
                states = F.linear(states[0], project), *states[1:]
            outputs.append(states[0])
        return torch.stack(outputs[::-1] if backwards else outputs), states


class StepwiseRNN(_Stepwise, nn.RNN):
    """`nn.RNN`, step by step."""

    states = 1

    def step(self, from_input: Tensor, from_state: Tensor, states: States) -> States:
        total = from_input + from_state
        return (total.tanh() if self.nonlinearity == "tanh" else total.relu(),)


class StepwiseGRU(_Stepwise, nn.GRU):
    """`nn.GRU`, step by step."""

    states = 1

    def step(self, from_input: Tensor, from_state: Tensor, states: States) -> States:
        (reset, update, new), (reset_h, update_h, new_h) = from_input.chunk(3, -1), from_state.chunk(3, -1)
        update = (update + update_h).sigmoid()
        return ((1 - update) * (new + (reset + reset_h).sigmoid() * new_h).tanh() + update * states[0],)


class StepwiseLSTM(_Stepwise, nn.LSTM):
    """`nn.LSTM`, step by step."""

    states = 2

    def step(self, from_input: Tensor, from_state: Tensor, states: States) -> States:
        enter, forget, cell, leave = (from_input + from_state).chunk(4, -1)
        memory = forget.sigmoid() * states[1] + enter.sigmoid() * cell.tanh()
        return leave.sigmoid() * memory.tanh(), memory
