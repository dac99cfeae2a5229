"""Record games and real data with pyDVL, together with the values pyDVL computes itself.

``python tests/peers/record_pydvl.py OUT`` makes an environment of its own (pyDVL 0.10 needs numpy<2),
installs porism there without its dependencies, and writes one folder a case: the files of
``RecordingUtility`` as they are, and ``peer.json`` with pyDVL's values. ``--env DIR`` keeps the
environment; ``--here`` uses the interpreter it is called with. Takes a minute, most of it downloads.
The committed recordings under tests/sims/partition/adapters/recorded/pydvl were made by it.
"""

import json
import shutil
import sys
import warnings
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from environment import run_inside

REQUIREMENTS = ["pydvl==0.10.0", "numpy<2"]


def write(out):
    import numpy as np
    from joblib import parallel_config
    from pydvl.valuation import (
        BanzhafValuation,
        BetaShapleyValuation,
        Dataset,
        DeterministicUniformSampler,
        MinUpdates,
        ModelUtility,
        MSRSampler,
        NoStopping,
        PermutationSampler,
        ShapleyValuation,
        SupervisedScorer,
    )
    from pydvl.valuation.games import ShoesGame, SymmetricVotingGame
    from sklearn.datasets import load_breast_cancer
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    from porism.errors import NumericalWarning
    from porism.sims.partition.adapters.pydvl import RecordingUtility

    warnings.simplefilter("ignore")

    def values(valuation, data, jobs=1):
        with parallel_config(n_jobs=jobs):
            return valuation.fit(data).result.sort(key="index").values.tolist()

    def finish(recorder, folder, **peer):
        for number, path in enumerate(sorted(folder.glob("*.rec"))):
            path.rename(folder / f"{number}.rec")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            table = recorder.table()
        told = [str(w.message) for w in caught if issubclass(w.category, NumericalWarning)]
        peer |= {"fallbacks": recorder.fallbacks, "warned": len(told), "complete": table.is_complete}
        peer["versions"] = {name: version(name) for name in ("pydvl", "numpy", "scikit-learn", "joblib")}
        (folder / "peer.json").write_text(json.dumps(peer, indent=1) + "\n")
        print(f"{folder.name}: {table}, {peer['fallbacks']} fallbacks")

    def start(name, utility):
        shutil.rmtree(out / name, ignore_errors=True)
        return RecordingUtility(utility, out / name), out / name

    def exact(recorder, data, jobs):
        every, never = DeterministicUniformSampler, NoStopping
        result = {"shapley": values(ShapleyValuation(recorder, every(), never()), data, jobs)}
        plain = recorder.utility  # the other semivalues come from the same game, unrecorded
        result["banzhaf"] = values(BanzhafValuation(plain, every(), never()), data)
        result["beta_4_1"] = values(BetaShapleyValuation(plain, every(), never(), alpha=4, beta=1), data)
        return result

    for name, game in (("shoes", ShoesGame(2, 4)), ("voting", SymmetricVotingGame(4))):
        recorder, folder = start(name, game.u)
        closed = {"closed_shapley": game.shapley_values().values.tolist()}
        finish(recorder, folder, **closed, **exact(recorder, game.data, jobs=2))

    # six training points of breast cancer; coalitions with one class cannot be fitted and score the default
    x, y = load_breast_cancer(return_X_y=True)
    x = StandardScaler().fit_transform(x)[:, :8]
    order = np.random.default_rng(7).permutation(len(x))
    train, test = (Dataset(x[part], y[part]) for part in (order[:6], order[6:56]))

    def utility():
        scorer = SupervisedScorer("accuracy", test, default=0.5, range=(0.0, 1.0))
        return ModelUtility(LogisticRegression(), scorer, catch_errors=True, show_warnings=False)

    recorder, folder = start("logistic", utility())
    finish(recorder, folder, **exact(recorder, train, jobs=2))

    recorder, folder = start("permutation", utility())
    sampled = ShapleyValuation(recorder, PermutationSampler(seed=1), MinUpdates(20))
    finish(recorder, folder, shapley=values(sampled, train))

    recorder, folder = start("msr", utility())
    sampled = BanzhafValuation(recorder, MSRSampler(seed=1), MinUpdates(100))
    finish(recorder, folder, banzhaf=values(sampled, train))


if __name__ == "__main__":
    run_inside(__file__, write, REQUIREMENTS)
