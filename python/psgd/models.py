"""Models: their files as arrays, as a torch module, and back."""
from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, Optional, Sequence, Tuple

from .errors import Invalid
from .program import PathLike
from .safetensors import read

if TYPE_CHECKING:
    import torch

FINAL = Path("model") / "final.safetensors"
CHECKPOINT_PREFIX = "model/"


def _file(path: PathLike) -> Path:
    """A file of weights, or the final one in a folder of results."""
    where = Path(path)
    return where / FINAL if where.is_dir() else where


def _read_model(path: PathLike) -> Tuple[Dict[str, Any], Dict[str, str]]:
    """The tensors of the model in a file; a checkpoint also has others."""
    tensors, metadata = read(_file(path))
    of_model = {name[len(CHECKPOINT_PREFIX) :]: t for name, t in tensors.items() if name.startswith(CHECKPOINT_PREFIX)}
    return of_model or tensors, metadata


def _is_of_program(metadata: Dict[str, str]) -> bool:
    """Whether a training program computes the model: psgd knows its tensors, and no layers."""
    try:
        document = json.loads(metadata.get("arch", "{}"))
    except (ValueError, RecursionError):
        return False
    return isinstance(document, dict) and "trainer" in document


def load_model(path: PathLike, torch: bool = False) -> Dict[str, Any]:
    """The weights in a file, or in a folder of results, by name: {"layer0.dense.weight": ...}. Numpy arrays; where numpy is not
    installed memoryviews, which have a shape and tolist(). torch: a state_dict instead, for to_torch(), or for the module of the
    training program that has made the model, whose frozen tensors and buffers of integers are not in it."""
    tensors, metadata = _read_model(path)
    if not torch:
        return tensors
    if _is_of_program(metadata):
        from .torch_load import tensor_of

        return {name: tensor_of(t) for name, t in tensors.items()}
    state: Dict[str, Any] = _module_of(path, tensors, metadata).state_dict()
    return state


def _text(value: Any) -> Any:
    """A text of a record, decoded: {"bytes": TEXT} stands for a text that is not UTF-8, and becomes bytes."""
    return value["bytes"].encode("latin-1") if isinstance(value, dict) else value


def _words(value: Any) -> Any:
    """The words are one text, separated by spaces."""
    words = _text(value)
    return words.split(b" " if isinstance(words, bytes) else " ") if words else words


def load_preprocessing(path: PathLike) -> Optional[Dict[str, Any]]:
    """The preprocessing record in a file of weights, or in a folder of results: what was learned from the training data, such
    as "words", "class_names", "columns", "mean" and "deviation" (docs/models.md has the keys). None: the file has none. A text
    that is not UTF-8 is given as bytes."""
    text = _read_model(path)[1].get("preprocessing")
    if text is None:
        return None
    try:
        record = json.loads(text)
        if record["version"] != 1:
            raise ValueError(f"version {record['version']}")
        for key in ("columns", "class_names"):
            record[key] = [_text(name) for name in record[key]] if record.get(key) else None
        record["words"] = _words(record.get("words"))
        return dict(record)
    except (KeyError, TypeError, ValueError, AttributeError) as e:
        raise Invalid(f"{_file(path)}: not a preprocessing record: {e}") from None


def _module_of(path: PathLike, tensors: Dict[str, Any], metadata: Dict[str, str]) -> "torch.nn.Sequential":
    if "arch" not in metadata:
        raise Invalid(f'{_file(path)}: its metadata has no "arch", the document of a model')
    if _is_of_program(metadata):
        raise Invalid(
            f"{_file(path)}: its module is that of a training program, and psgd has only its tensors",
            "Make the module as the program does, and load them: module.load_state_dict(psgd.load_model(PATH, torch=True)), with "
            "strict=False if it has frozen tensors or buffers of integers.",
        )
    from .torch_load import module_of

    try:
        return module_of(json.loads(metadata["arch"]), tensors)
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as e:
        if isinstance(e, Invalid):
            raise
        raise Invalid(f"{_file(path)}: not the weights of the model in its metadata: {e}") from None


def to_torch(path: PathLike) -> "torch.nn.Sequential":
    """The model in a file, or in a folder of results, as a torch module in evaluation mode. Its layer N is psgd's layer N;
    images are (samples, channels, rows, columns), as torch has them."""
    return _module_of(path, *_read_model(path))


def to_safetensors(
    module: "torch.nn.Module",
    path: PathLike,
    *,
    input: Optional[Sequence[int]] = None,
    loss: str = "softmax_cross_entropy",
    name: str = "from-torch",
    metrics: Sequence[str] = (),
    like: Optional[PathLike] = None,
) -> Path:
    """Writes a torch.nn.Sequential as FILE.safetensors, its weights, and beside it FILE.json, its model; returns the path of
    the latter. `job_submit --model FILE.json --init-from FILE.safetensors` goes on training it.

    input: the shape of a sample as psgd has it, (values), (time, values), (time) tokens or (rows, columns, channels); needed
    unless a Linear comes first. loss, name, metrics: as in the model's document (docs/reference/model.md). like: a file, or a
    folder of results, whose preprocessing record the new file has, too, as the module was trained on the same data."""
    from .torch_save import save

    metadata = {} if like is None else {k: v for k, v in _read_model(like)[1].items() if k == "preprocessing"}
    return save(module, Path(path), input=input, loss=loss, name=name, metrics=metrics, metadata=metadata)
