"""Record real data with OpenDataVal, together with the values OpenDataVal computes itself.

``python tests/peers/record_opendataval.py OUT`` makes an environment of its own and writes one JSON file
a case: the coalitions heard (hexadecimal bit masks) and their scores in order, what the recording knows
about them, and OpenDataVal's values. ``--env DIR`` keeps the environment, ``--here`` uses the
interpreter it is called with; any build of torch will do, and ``--pip=--index-url=…`` picks a small one.
OpenDataVal pins torch 2.1 and pandas 1; it is installed without these pins, and what it imports for
image sets, LAVA and BERT alone is stood in for by empty modules.
The committed recordings under tests/sims/partition/adapters/recorded/opendataval were made by it.
"""

import contextlib
import io
import json
import sys
import types
import warnings
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from environment import run_inside

REQUIREMENTS = ["torch==2.13.0", "numpy<2", "scikit-learn", "pandas", "tqdm", "requests", "matplotlib"]
ALONE = ["opendataval==1.3.0"]
UNUSED = [
    "geomloss",
    "torchvision",
    "torchvision.datasets",
    "torchvision.models",
    "torchvision.models.feature_extraction",
    "torchvision.transforms",
    "torchvision.transforms.functional",
    "transformers",
]


class StandIn(types.ModuleType):
    """A module whose every name exists: classes if capitalised, modules if not."""

    __path__ = ()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {}) if name[0].isupper() else StandIn(f"{self.__name__}.{name}")


def stand_in():
    for name in UNUSED:
        sys.modules[name] = module = StandIn(name)
        parent, _, leaf = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], leaf, module)


def write(out):
    stand_in()
    warnings.simplefilter("ignore")
    import numpy as np
    import torch
    from opendataval.dataval import (
        BetaShapley,
        DataBanzhaf,
        DataBanzhafMargContrib,
        DataShapley,
        GrTMCSampler,
        LeaveOneOut,
        TMCSampler,
    )
    from opendataval.metrics import accuracy
    from opendataval.model import ClassifierUnweightedSkLearnWrapper
    from sklearn.datasets import load_breast_cancer
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.preprocessing import StandardScaler

    from porism.sims.partition.adapters.opendataval import record

    x, y = load_breast_cancer(return_X_y=True)
    x = torch.tensor(StandardScaler().fit_transform(x)[:, :8], dtype=torch.float32)
    y = torch.nn.functional.one_hot(torch.tensor(y), 2).to(torch.float32)
    order = np.random.default_rng(7).permutation(len(x))

    def train(evaluator, n, neighbours=1):
        part, valid = order[:n], order[n : n + 50]
        model = ClassifierUnweightedSkLearnWrapper(KNeighborsClassifier, 2, n_neighbors=neighbours)
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            evaluator.input_model_metric(model, accuracy).input_data(x[part], y[part], x[valid], y[valid])
            evaluator.train_data_values()
        assert "clone" not in vars(evaluator.pred_model)
        assert "evaluate" not in vars(evaluator)
        return evaluator.evaluate_data_values()

    def finish(name, recording, values, **more):
        game = recording.games[0]
        content = {
            "n": game.n,
            "class": type(recording.target).__name__,
            "design": recording.design,
            "min_cardinality": recording.min_cardinality,
            "drawn": recording.drawn,
            "dropped": recording.dropped,
            "values": np.asarray(values).tolist(),
            **more,
            "versions": {key: version(key) for key in ("opendataval", "torch", "numpy", "scikit-learn")},
            "masks": " ".join(f"{mask:x}" for mask in game.masks),
            "scores": game.scores,
        }
        text = json.dumps(content)
        (out / f"{name}.json").write_text(text.replace(', "', ',\n "') + "\n")
        sampled = recording.table(design=recording.design).sampled
        print(f"{name}: {sampled.n_rows} rows, {sampled.n_units} units, truncated {sampled.truncated}")

    silent = train(DataBanzhaf(num_models=120, random_state=1), 5)
    evaluator = DataBanzhaf(num_models=120, random_state=1)
    recording = record(evaluator)
    heard = train(evaluator, 5)
    assert np.array_equal(silent, heard)  # listening changes nothing
    finish("banzhaf", recording, heard)

    evaluator = LeaveOneOut(random_state=1)
    recording = record(evaluator)
    finish("loo", recording, train(evaluator, 6))

    sampler = TMCSampler(mc_epochs=25, cache_name=None, random_state=1)  # min_cardinality stays at 5
    recording = record(sampler)
    shapley = train(DataShapley(sampler=sampler), 8)
    counts = sampler.marginal_count
    beta = BetaShapley(sampler)  # of the same marginal contributions
    beta.num_points, beta.marg_contrib = 8, sampler.marginal_contribution
    more = {"beta_4_1": beta.evaluate_data_values().tolist(), "counts": np.round(counts).astype(int).tolist()}
    finish("shapley", recording, shapley, **more)

    sampler = TMCSampler(mc_epochs=60, min_cardinality=0, cache_name=None, random_state=1)
    recording = record(DataBanzhafMargContrib(sampler=sampler))
    finish("margcontrib", recording, train(DataBanzhafMargContrib(sampler=sampler), 4))

    once = {"max_mc_epochs": 1, "models_per_epoch": 6, "min_models": 10**9}
    sampler = GrTMCSampler(**once, min_cardinality=1, cache_name=None, random_state=1)
    recording = record(sampler)
    finish("truncated", recording, train(DataShapley(sampler=sampler), 24, neighbours=1))


if __name__ == "__main__":
    run_inside(__file__, write, REQUIREMENTS, ALONE)
