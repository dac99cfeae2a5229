"""Small adapted models, and what peft and scikit-learn do with the same data, for the benchmarks."""

import contextlib
import hashlib
import io
import tempfile
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "CHILD",
    "batches",
    "bert",
    "checksum",
    "eva_rows",
    "head_gradients",
    "labels_matter",
    "logits",
    "lora",
    "orthonormal",
    "peft_basis",
    "reloaded",
    "sklearn_basis",
    "topic_batches",
]

Floats = NDArray[np.float64]

TOPICS = ("operator-summary", "string-methods", "try", "import")
"""Entries of Python's documentation whose excerpts are told apart."""

CHILD = """
import json, signal, sys, time
from porism.sims.alignment import init_pivot_lora
from porism.sims.alignment._peers import batches, bert, lora
from peft.tuners.lora.eva import get_eva_state_dict

class Lines:
    count = 0
    def write(self, text): Lines.count += text.startswith("skipping SVD")
    def flush(self): pass

def stop(*_): raise TimeoutError

found, loader = {}, batches(8, 4, 7)
model = lora(bert(), 8)
start = time.perf_counter()
found["rows"] = init_pivot_lora(model, loader, pooling="target").rows.tolist()
found["ours_s"] = time.perf_counter() - start
peer, kept = lora(bert(), 8, init_lora_weights="eva"), sys.stdout
unlabelled = [{"input_ids": batch["input_ids"]} for batch in loader]
signal.signal(signal.SIGALRM, stop)
signal.alarm(SECONDS)
start, sys.stdout = time.perf_counter(), Lines()
try:
    get_eva_state_dict(peer, unlabelled, show_progress_bar=False, prepare_model_inputs_fn=None,
                       prepare_layer_inputs_fn=lambda states, *_: states[0][:, 0].clone())
    found["ended"] = True
except TimeoutError:
    found["ended"] = False
signal.alarm(0)
sys.stdout = kept
found |= {"peer_s": time.perf_counter() - start, "skipped": Lines.count}
print(json.dumps(found))
"""
"""Program of a process of its own: ours, then the peer under an alarm."""


def bert(seed: int = 0) -> Any:
    """A BERT classifier of two blocks, from a configuration."""
    import torch
    import transformers

    sizes: dict[str, Any] = {
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_labels": 3,
        "attn_implementation": "eager",
    }
    config = transformers.BertConfig(vocab_size=60, pad_token_id=0, **sizes)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model: Any = transformers.BertForSequenceClassification(config)
        return model.eval()


def lora(base: Any, r: int, **options: Any) -> Any:
    """Stock peft: LoRA of queries and values."""
    import peft
    import torch

    if options.get("init_lora_weights") == "eva":
        options["eva_config"] = peft.EvaConfig()
    config = peft.LoraConfig(r=r, target_modules=["query", "value"], **options)
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # on memory
        warnings.simplefilter("ignore", FutureWarning)  # peft asks transformers by a name that is going
        torch.manual_seed(1)
        return peft.get_peft_model(base, config).eval()


def batches(count: int, size: int, length: int, seed: int = 0) -> list[dict[str, Any]]:
    """Token windows with a class each."""
    import torch

    g = torch.Generator().manual_seed(seed)
    return [
        {
            "input_ids": torch.randint(1, 60, (size, length), generator=g),
            "labels": torch.randint(0, 3, (size,), generator=g),
        }
        for _ in range(count)
    ]


def checksum(model: Any) -> str:
    """Hash of all parameters and buffers that are no adapter's."""
    digest = hashlib.sha256()
    for name, value in sorted(model.state_dict().items()):
        if "lora_" not in name:
            digest.update(value.detach().contiguous().numpy().tobytes())
    return digest.hexdigest()


def logits(model: Any, given: list[dict[str, Any]]) -> Floats:
    """Outputs of the classifier."""
    import torch

    with torch.no_grad():
        found = [model(input_ids=batch["input_ids"]).logits for batch in given]
    return np.asarray(torch.cat(found).double().numpy())


def reloaded(model: Any) -> Any:
    """The adapter saved by peft and loaded by peft onto a fresh base."""
    import peft

    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        model.save_pretrained(folder)
        return peft.PeftModel.from_pretrained(bert(), folder).eval()


def peft_basis(x: Floats, r: int, batch: int) -> Floats:
    """Principal rows by peft's incremental PCA, set up as EVA does."""
    import torch
    from peft.utils.incremental_pca import IncrementalPCA

    pca: Any = IncrementalPCA(n_components=r, copy=True, lowrank=True, lowrank_seed=42)
    rows: Any = torch.from_numpy(x).float()
    for part in rows.split(batch):
        pca.partial_fit(part)
    return orthonormal(pca.components_.double().numpy())


def sklearn_basis(x: Floats, r: int, batch: int) -> Floats:
    """Principal rows by scikit-learn's incremental PCA."""
    from sklearn.decomposition import IncrementalPCA

    return orthonormal(IncrementalPCA(r, batch_size=batch).fit(x).components_)


def orthonormal(rows: Floats) -> Floats:
    return np.linalg.qr(rows.T)[0].T


def eva_rows(model: Any, given: list[dict[str, Any]]) -> dict[str, Any]:
    """Rows that EVA gives each adapted module, in silence."""
    from peft.tuners.lora import eva

    with contextlib.redirect_stdout(io.StringIO()):
        return eva.get_eva_state_dict(model, given, show_progress_bar=False)


def labels_matter(size: int, length: int, r: int = 4) -> tuple[float, float | str]:
    """Largest difference of A to that from data without labels: ours, and EVA's or its exception.

    One sample of each batch has the label -100 and is to be left out; the data without labels lack it.
    """
    from porism.sims.alignment.init import init_pivot_lora

    given = batches(3, size, length)
    for batch in given:
        batch["labels"][1] = -100
    bare = [{"input_ids": batch["input_ids"][batch["labels"] != -100]} for batch in given]

    def ours(data: list[dict[str, Any]]) -> dict[str, Floats]:
        model = lora(bert(), r)
        init_pivot_lora(model, data, measure=False, random_state=0)
        return {
            name: value.detach().double().numpy()
            for name, value in model.named_parameters()
            if "lora_A" in name
        }

    def theirs(data: list[dict[str, Any]]) -> dict[str, Floats]:
        rows = eva_rows(lora(bert(), r, init_lora_weights="eva"), data)
        return {name: value.double().numpy() for name, value in rows.items()}

    def apart(work: Any) -> float:
        one, two = work(given), work(bare)
        return max(float(np.abs(one[name] - two[name]).max()) for name in two)

    try:
        other: float | str = apart(theirs)
    except (IndexError, RuntimeError, ValueError) as error:
        other = type(error).__name__
    return apart(ours), other


def topic_batches(tokenizer: Any, samples: int = 12, length: int = 40) -> list[dict[str, Any]]:
    """Excerpts of four topics of Python's documentation with their topic, classes mixed in each batch."""
    import torch

    from porism.sims.pattern import real_text

    texts, classes = [], []
    for c, topic in enumerate(TOPICS):
        text = real_text(topic)
        for cut in np.linspace(0, len(text) - 200, samples).astype(int):
            texts.append(text[cut : cut + 200])
            classes.append(c)
    options = {"return_tensors": "pt", "padding": True, "truncation": True, "max_length": length}
    return [
        dict(tokenizer(texts[k::samples], **options)) | {"labels": torch.tensor(classes[k::samples])}
        for k in range(samples)
    ]


def head_gradients(model: Any, given: list[dict[str, Any]], seeds: int = 3) -> Iterator[dict[str, Floats]]:
    """Gradient of each adapted weight under random heads on [CLS], of the mean loss over all batches.

    In the limit of small heads, up to scale: predictions are the class shares.
    """
    import torch

    weights = {n: m.base_layer.weight for n, m in model.named_modules() if hasattr(m, "base_layer")}
    for weight in weights.values():
        weight.requires_grad_(True)
    try:
        with model.disable_adapter():
            inputs = [{k: v for k, v in batch.items() if k != "labels"} for batch in given]
            states = torch.cat([model(**part).last_hidden_state[:, 0] for part in inputs])
        y = torch.nn.functional.one_hot(torch.cat([batch["labels"] for batch in given])).float()
        for seed in range(seeds):
            head = torch.randn(y.shape[1], states.shape[1], generator=torch.Generator().manual_seed(seed))
            loss = ((y.mean(dim=0) - y) * (states @ head.T)).sum(dim=1).mean()
            found = torch.autograd.grad(loss, list(weights.values()), retain_graph=True)
            yield {n: v.double().numpy() for n, v in zip(weights, found, strict=True)}
    finally:
        for weight in weights.values():
            weight.requires_grad_(False)
