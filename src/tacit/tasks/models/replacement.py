"""Layers of torch that a model replaces in its own copy of a module, and restores in the trained module.

A replaced layer keeps its parameters, buffers and attributes. Only its class changes: to one with the same values that
torch.vmap supports, that draws its masks from a stream, or that never updates its statistics.
"""

from torch import nn

from tacit.tasks.models import attention, dropout, frozen_norm, recurrent
from tacit.tasks.models.dropout import MaskStream, is_active

_DROPOUT: dict[type[nn.Module], type[nn.Module]] = {
    nn.Dropout: dropout.KeyedDropout,
    nn.Dropout1d: dropout.KeyedDropout1d,
    nn.Dropout2d: dropout.KeyedDropout2d,
    nn.Dropout3d: dropout.KeyedDropout3d,
    nn.AlphaDropout: dropout.KeyedAlphaDropout,
    nn.FeatureAlphaDropout: dropout.KeyedFeatureAlphaDropout,
}
_WITH_STREAM: dict[type[nn.Module], type[nn.Module]] = {
    nn.RNN: recurrent.StepwiseRNN,
    nn.GRU: recurrent.StepwiseGRU,
    nn.LSTM: recurrent.StepwiseLSTM,
    nn.MultiheadAttention: attention.PlainMultiheadAttention,
}
_WITHOUT_STREAM: dict[type[nn.Module], type[nn.Module]] = {
    nn.TransformerEncoderLayer: attention.PlainTransformerEncoderLayer,
    nn.BatchNorm1d: frozen_norm.FrozenBatchNorm1d,
    nn.BatchNorm2d: frozen_norm.FrozenBatchNorm2d,
    nn.BatchNorm3d: frozen_norm.FrozenBatchNorm3d,
}
_REPLACED = {**_DROPOUT, **_WITH_STREAM, **_WITHOUT_STREAM}
"""Exact types, since a subclass may compute anything."""
_ORIGINAL = {new: old for old, new in _REPLACED.items()}


def has_keyed_form(layer: nn.Module) -> bool:
    """Return whether the random numbers of a layer can be drawn from a stream."""
    return type(layer) in _DROPOUT or type(layer) in _WITH_STREAM


def replace_layers(module: nn.Module) -> MaskStream | None:
    """Replace the layers of a module, in place. Return the stream of its masks; None if no layer needs one."""
    stream, active = MaskStream(), False
    for layer in module.modules():
        if getattr(layer, "inplace", False) is True:
            layer.inplace = False  # type: ignore[assignment]  # the ghost engine needs the values that it would overwrite
        if type(layer) in _DROPOUT and not is_active(layer):
            continue  # the layer returns its input
        if has_keyed_form(layer):
            active = active or is_active(layer)
            layer.stream = stream  # type: ignore[assignment]
        if type(layer) in _REPLACED:
            layer.__class__ = _REPLACED[type(layer)]
        if isinstance(layer, nn.TransformerEncoder):
            layer.use_nested_tensor = False
    return stream if active else None


def restore_layers(module: nn.Module) -> nn.Module:
    """Give every replaced layer of a module its own class again, in place."""
    for layer in module.modules():
        if type(layer) in _ORIGINAL:
            layer.__class__ = _ORIGINAL[type(layer)]
            vars(layer).pop("stream", None)
    return module
