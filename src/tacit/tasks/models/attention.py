"""Attention layers of torch, from plain tensor operations that torch.vmap supports, with the masks of a stream.

In evaluation mode, torch replaces these layers by fused kernels and nested tensors, which give the same values up to
rounding, but neither per-record gradients nor dropout with known masks.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tacit.errors import TacitError
from tacit.tasks.models.dropout import MaskStream


class PlainMultiheadAttention(nn.MultiheadAttention):
    """`nn.MultiheadAttention` without fused kernels."""

    stream: MaskStream

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        if is_causal and attn_mask is None:
            raise TacitError("MultiheadAttention: is_causal needs attn_mask")
        batched = query.dim() == 3
        parts = [query, key, value] if batched else [part.unsqueeze(0) for part in (query, key, value)]
        if batched and not self.batch_first:
            parts = [part.transpose(0, 1) for part in parts]
        q, k, v = self._projected(*parts)
        k, v, more = self._extended(k, v)
        q, k, v = (part.reshape(*part.shape[:2], self.num_heads, -1).transpose(1, 2) for part in (q, k, v))
        if self.add_zero_attn:
            zeros = torch.zeros_like(k[:, :, :1])
            k, v, more = torch.cat([k, zeros], 2), torch.cat([v, zeros], 2), more + 1
        scores = q @ k.mT * self.head_dim**-0.5
        for mask in self._masks(attn_mask, key_padding_mask, scores, more):
            scores = scores + mask
        weights = scores.softmax(-1)
        if self.training and self.dropout > 0:
            weights = self.stream.drop(weights, self.dropout)
        output = self.out_proj((weights @ v).transpose(1, 2).flatten(2))
        if batched and not self.batch_first:
            output = output.transpose(0, 1)
        shown = (weights.mean(1) if average_attn_weights else weights) if need_weights else None
        if batched:
            return output, shown
        return output.squeeze(0), None if shown is None else shown.squeeze(0)

    def _projected(self, query: Tensor, key: Tensor, value: Tensor) -> list[Tensor]:
        packed = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        weights = self.in_proj_weight.chunk(3) if self._qkv_same_embed_dim else packed
        biases = (None,) * 3 if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        return [F.linear(x, w, b) for x, w, b in zip((query, key, value), weights, biases, strict=True)]

    def _extended(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, int]:
        """Return keys and values with the learned additional ones, and the number of additional positions."""
        if self.bias_k is None or self.bias_v is None:
            return k, v, 0
        rows = [part.expand(len(k), 1, -1) for part in (self.bias_k, self.bias_v)]
        return torch.cat([k, rows[0]], 1), torch.cat([v, rows[1]], 1), 1

    def _masks(self, attention: Tensor | None, padding: Tensor | None, scores: Tensor, more: int) -> list[Tensor]:
        """Return masks to add to scores (B, heads, T, S). Additional positions are never masked."""
        masks = []
        if attention is not None:
            added = F.pad(_additive(attention, scores), (0, more))
            masks.append(added.reshape(-1, self.num_heads, *added.shape[1:]) if added.dim() == 3 else added)
        if padding is not None:
            masks.append(F.pad(_additive(padding, scores), (0, more)).reshape(-1, 1, 1, scores.shape[-1]))
        return masks


def _additive(mask: Tensor, like: Tensor) -> Tensor:
    """Return a mask as numbers to add: −∞ where a boolean one is True."""
    if mask.dtype != torch.bool:
        return mask.to(like.dtype)
    return torch.where(mask, -torch.inf, 0.0).to(like.dtype)


class PlainTransformerEncoderLayer(nn.TransformerEncoderLayer):
    """`nn.TransformerEncoderLayer` without fused kernels. Its attention and dropout layers are replaced as well."""

    stream: MaskStream

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        masks = src_mask, src_key_padding_mask
        if self.norm_first:
            src = src + self._sa_block(self.norm1(src), *masks, is_causal=is_causal)
            return src + self._ff_block(self.norm2(src))
        src = self.norm1(src + self._sa_block(src, *masks, is_causal=is_causal))
        normed: Tensor = self.norm2(src + self._ff_block(src))
        return normed
