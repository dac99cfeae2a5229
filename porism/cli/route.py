"""`porism route`: fit a router to scores, judge it, certify its decisions, answer queries, study bidders."""

import math
import sys
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from porism._show import plain
from porism.cli import _routing as files
from porism.cli.common import AsJson, Seed, as_options, check_outputs, check_picture, draw, echo_json, table

__all__ = ["route"]

POLICIES = (
    "kg", "kg_sigma", "kg_joint", "weitzman", "threshold", "threshold_all", "random", "random_joint", "cheap",
    "exhaustive", "oracle", "single_best",
)  # fmt: skip

Data = Annotated[
    Path,
    typer.Argument(metavar="DATA", help="Scores: .npz, or a .csv or .parquet with a column a specialist."),
]
Saved = Annotated[
    Path, typer.Argument(metavar="ROUTER", help="File that `porism route fit`, or Router.save, wrote.")
]
Features = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Features: .csv or .parquet, a row a query, a column each."),
]
Lam = Annotated[float, typer.Option(help="Value of a unit of money.")]
OUTSIDE = "Value of choosing nobody; -inf, the default, if that cannot be."
Plot = Annotated[Path | None, typer.Option(metavar="OUT", help="Draw into a picture.")]
PRICE = "Price of using a specialist, 0 by default: a number, or one each: 0.1,0.2,…"
Price = Annotated[str, typer.Option(help=PRICE)]
ONE_EACH = "a number, or one each: 0.004,0.01,…"

route = typer.Typer(rich_markup_mode=None, context_settings={"max_content_width": 110})


@route.callback(invoke_without_command=True)
def _route(context: typer.Context) -> None:
    """Route queries to specialists, and refine an estimate where that pays.

    Example: porism route fit data.npz --cheap ridge --expensive trees --out r.npz
    """
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@route.command()
def fit(
    data: Data,
    out: Annotated[Path, typer.Option(metavar="OUT", help="File to write, .npz.")],
    cheap: Annotated[
        str | None,
        typer.Option(help="ridge, knn or trees. The array cheap of DATA, or else ridge, by default."),
    ] = None,
    expensive: Annotated[
        str | None,
        typer.Option(help="ridge, knn or trees. The array refined of DATA, or else trees, by default."),
    ] = None,
    features: Features = None,
    cheap_features: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="The cheap estimator sees the first N features only."),
    ] = None,
    folds: Annotated[int, typer.Option(help="Folds of cross-fitting, at least 2.")] = 5,
    groups: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Rows that agree in it stay in one fold; none for none. By default the arrays groups or "
            "prompt_sha1 of DATA, or its columns prompt or sample_id.",
        ),
    ] = None,
    returns: Annotated[
        str, typer.Option(help="gaussian, or binary for scores that are 0 or 1.")
    ] = "gaussian",
    dependence: Annotated[str, typer.Option(help="joint or independent.")] = "joint",
    nu_bins: Annotated[
        int | None, typer.Option(help="Let nu depend on the cheap estimate in N bins.")
    ] = None,
    cost: Annotated[
        str | None, typer.Option(help=f"Say whether refining can pay at this cost in value units: {ONE_EACH}")
    ] = None,
    seed: Seed = 0,
    json: AsJson = False,
) -> None:
    """Fit a router to a matrix of scores and print its calibration report.

    An npz holds scores (n, K), NaN where unknown, and features (n, p), or out-of-fold estimates cheap and
    refined (n, K); models, groups and cheap_features are used where they are there.

    Exit 0: fitted; 3: fitted and written, but routing on the refined estimates was surely worse than on the
    cheap ones (flag refine_harmful); 2: bad input.

    Example: porism route fit data.npz --cheap ridge --expensive trees --out r.npz
    """
    from porism.theory.pandora import fit_router

    check_outputs(out, inputs=(data, features))
    matrix, given = files.matrix(data, features, None if groups == "none" else groups)
    K = len(matrix.models)
    kinds = {"cheap": cheap, "expensive": expensive}
    arrays = {"cheap": given.get("cheap"), "expensive": given.get("refined")}
    for name, kind in kinds.items():
        if kind not in (None, "ridge", "knn", "trees"):
            raise ValueError(f"--{name} must be ridge, knn or trees, got {kind!r}")
    chosen = {name: arrays[name] if kind is None else kind for name, kind in kinds.items()}
    sees = {"cheap": matrix.features if matrix.cheap_features is None else matrix.cheap_features}
    sees["expensive"] = matrix.features
    if any(sees[name] is None and isinstance(value, str | None) for name, value in chosen.items()):
        raise ValueError(
            f"{data.name} must have features (n, p), or both estimates cheap and refined (n, K); "
            "put them into an npz, or give --features FILE"
        )
    labels = files.folded(matrix, data, groups, folds)
    with files.doubts(fit):
        fitted = fit_router(
            matrix.scores,
            cheap=chosen["cheap"],
            refined=chosen["expensive"],
            features=matrix.features,
            cheap_features=files.narrow(matrix, data.name, cheap_features),
            folds=folds,
            groups=labels,
            returns=returns,
            dependence=dependence,
            seed=seed,
            mask=None if matrix.known.all() else matrix.known,
            names=matrix.models,
            nu_bins=nu_bins,
            costs=None if cost is None else files.money("--cost", cost, K),
            progress=sys.stderr.isatty(),
        )
    fitted.save(out)
    report = fitted.report
    if json:
        columns = ("slope", "intercept", "slope_cheap", "intercept_cheap", "nu_cov", "nu_var")
        usual = {"cheap": "ridge", "expensive": "trees"}
        found = {
            "n_queries": len(matrix.scores),
            "models": fitted.names,
            "estimators": {
                name: value if isinstance(value, str) else usual[name] if value is None else "array"
                for name, value in chosen.items()
            },
            "groups": None if labels is None else len(set(labels.tolist())),
            "returns": returns,
            "dependence": dependence,
            **{name: getattr(fitted, name).tolist() for name in ("nu", "s", "tau")},
            "specialists": {name: getattr(report, name).tolist() for name in columns},
            "innovation_correlation": report.innovation_correlation.tolist(),
            "chosen": [vars(row) for row in report.chosen],
            "flags": report.flags,
            "above_cap": report.above_cap,
        }
        echo_json(plain(found))
    else:
        rows = zip(fitted.names, report.slope, report.intercept, fitted.nu, fitted.s, strict=True)
        typer.echo(table([("specialist", "slope", "intercept", "nu", "s"), *rows]))
        typer.echo("")
        none = "no query has all scores known: no rule is judged"
        typer.echo(as_options(report.summary(), fit, files.WORDS) if report.chosen else none)
        if report.refine_harmful:
            typer.echo("refining all and choosing by the refined estimates was worse than not refining")
    if report.refine_harmful:
        raise typer.Exit(3)


@route.command("eval")
def evaluate(
    router: Saved,
    data: Data,
    policies: Annotated[
        str, typer.Option(help=f"Any of {', '.join(POLICIES)}.")
    ] = "kg,kg_sigma,kg_joint,threshold,random,cheap,exhaustive,oracle,single_best",
    cost: Annotated[
        list[str], typer.Option(help=f"Cost of a refinement in money: {ONE_EACH} May be repeated.")
    ] = ["0.004"],  # noqa: B006
    price: Price = "0",
    lam: Lam = 1.0,
    eps: Annotated[list[float], typer.Option(help="Margin of threshold; may be repeated.")] = [0.1],  # noqa: B006
    picks: Annotated[
        list[int] | None, typer.Option(help="Refinements of random; may be repeated. Half of K by default.")
    ] = None,
    features: Features = None,
    seed: Seed = 0,
    json: AsJson = False,
    plot: Plot = None,
) -> None:
    """Compare policies by what they choose, refine and spend on a matrix of scores.

    DATA the router was fitted to is judged by the out-of-fold estimates of the fit, other data by the arrays
    cheap and refined in it, or else by the saved estimators. kg_joint and random_joint update all means by
    each refinement, the others the refined one alone; threshold chooses among the refined ones, threshold_all
    among all. gain is the quality over that of cheap, paired by query, with its standard error; share is the
    gain over that of exhaustive.

    Example: porism route eval r.npz data.npz --policies kg,kg_sigma,threshold --cost 0.004 --json
    """
    import numpy as np

    from porism.cli._judge import judge

    check_picture(plot)
    check_outputs(plot, inputs=(router, data, features))
    wanted = [word.strip() for word in policies.split(",")]
    for word in wanted:
        if word not in POLICIES:
            raise ValueError(f"--policies must be among {', '.join(POLICIES)}, got {word!r}")
    fitted, _ = files.load(router)
    matrix, given = files.matrix(data, features)
    matrix = files.aligned(matrix, fitted, data.name)
    m, q, source = files.estimates(fitted, matrix, given, data.name)
    whole = matrix.known.all(1)
    if not whole.any():
        raise ValueError(f"{data.name} has no query whose scores are all known: choices cannot be compared")
    K = len(fitted.names)
    with files.doubts(evaluate, "eval"):
        judged = judge(
            fitted,
            matrix.scores[whole],
            m[whole],
            q[whole],
            wanted,
            [files.money("--cost", text, K) for text in cost],
            np.broadcast_to(files.numbers("--price", price, K), (K,)),
            lam,
            eps,
            [max(K // 2, 1)] if picks is None else picks,
            seed,
        )
    found: dict[str, Any] = {"estimates": source, "n_queries": int(whole.sum()), "K": K} | judged
    if plot is not None:
        from porism.cli._judge import draw_curve

        draw(plot, lambda figure: draw_curve(figure.subplots(), found))
    if json:
        echo_json(plain(found))
        return
    columns = ("refinements", "quality", "spend", "net", "gain", "gain_se", "share")
    rows = [
        (row["policy"], row["setting"], *("" if row[name] is None else row[name] for name in columns))
        for row in found["rows"]
    ]
    typer.echo(
        table([("policy", "setting", "refinements", "quality", "spend", "net", "gain", "se", "share"), *rows])
    )
    typer.echo(f"{found['n_queries']} queries, {K} specialists, estimates {source}")
    typer.echo(
        f"exhaustive over cheap: {found['exhaustive_gain']:+.4f} (se {found['exhaustive_gain_se']:.4f})"
    )


@route.command()
def certify(
    router: Saved,
    nu_rel: Annotated[float, typer.Option(help="nu may be off by this share.")] = 0.2,
    cost: Annotated[str, typer.Option(help=f"Cost of a refinement in money: {ONE_EACH}")] = "0.004",
    cost_rel: Annotated[float, typer.Option(help="Costs may be off by this share.")] = 0.0,
    price: Price = "0",
    lam: Lam = 1.0,
    outside: Annotated[float, typer.Option(help=OUTSIDE)] = -math.inf,
    query: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Queries: a JSON object a line, as for `run`.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Queries: their features, as DATA of `fit`.")
    ] = None,
    features: Features = None,
    json: AsJson = False,
) -> None:
    """Count the first decisions that hold whatever nu is within an interval.

    For each query and specialist: is one refinement of it worth its cost, for all nu within nu (1 -+ R)?
    Queries are those of the fit by their out-of-fold estimates, or those of --query or --data. undecided:
    the answer depends on nu. Of a file that Router.save wrote the fit and the names count, not its costs.

    Example: porism route certify r.npz --nu-rel 0.2 --cost 0.004
    """
    import numpy as np

    from porism.cli._judge import rival
    from porism.theory.pandora import certify_decision

    for name, value in (("--nu-rel", nu_rel), ("--cost-rel", cost_rel)):
        if not 0 <= value <= 1:
            raise ValueError(f"{name} must be in [0, 1], got {value}")
    if not 0 <= lam < math.inf:
        raise ValueError(f"--lam must be >= 0 and finite, got {lam}")
    if not outside < math.inf:
        raise ValueError(f"--outside must be a number or -inf, got {outside}")
    if query is not None and data is not None:
        raise ValueError("give --query or --data, not both")
    if features is not None and data is None:
        raise ValueError("--features belong to --data; give its scores too")
    fitted, saved = files.load(router)
    names = fitted.names if saved is None else saved.names
    K = len(names)
    m = fitted.m_hat
    if query is not None:
        from porism.cli._service import queries

        with query.open("rb") as stream:
            m = queries(stream, fitted, names, query.name)
    elif data is not None:
        matrix, given = files.matrix(data, features)
        matrix = files.aligned(matrix, fitted, data.name)
        m = files.cheap(fitted, matrix, given, data.name)
    net = m - lam * files.numbers("--price", price, K)
    gap = net - rival(net, outside)
    nu = fitted.nu_at(m)
    c = lam * files.money("--cost", cost, K)
    words = np.asarray(
        certify_decision(
            (gap, gap),
            (nu * (1 - nu_rel), nu * (1 + nu_rel)),
            (c * (1 - cost_rel), c * (1 + cost_rel)),
        )
    )
    kinds = ("refine", "stop", "undecided")
    counts = {kind: (words == kind).sum(0) for kind in kinds}
    total = {kind: int(count.sum()) for kind, count in counts.items()}
    queries_ = {
        "refine": int((words == "refine").any(1).sum()),
        "stop": int((words == "stop").all(1).sum()),
    }
    queries_["undecided"] = len(m) - sum(queries_.values())
    if json:
        each = [
            {"name": name} | {kind: int(counts[kind][k]) for kind in kinds} for k, name in enumerate(names)
        ]
        echo_json(
            {"n_queries": len(m), "nu_rel": nu_rel, "cost_rel": cost_rel, "total": total, "queries": queries_,
             "specialists": each}
        )  # fmt: skip
        return
    rows = [(name, *(int(counts[kind][k]) for kind in kinds)) for k, name in enumerate(names)]
    typer.echo(table([("specialist", *kinds), *rows, ("all", *total.values())]))
    typer.echo(
        f"{len(m)} queries: {queries_['refine']} surely refine someone first, "
        f"{queries_['stop']} surely nobody, {queries_['undecided']} undecided"
    )


@route.command()
def bidder(
    m: Annotated[float, typer.Option(help="Mean of the specialist's value.")] = 0.0,
    nu: Annotated[float, typer.Option(help="Standard deviation of its refined mean.")] = 0.5,
    c: Annotated[float, typer.Option(help="Cost of refining.")] = 0.02,
    mu: Annotated[float, typer.Option(help="Mean of the competitor's value.")] = 1.2,
    s_other: Annotated[float, typer.Option(help="Standard deviation of the competitor's value.")] = 0.3,
    omega: Annotated[float, typer.Option(help="Standard deviation of the competitor's error.")] = 0.5,
    sweep: Annotated[
        str | None,
        typer.Option(help="Vary one of them: omega for 0 to 1, or NAME=LOW:HIGH:COUNT, such as mu=0:2:21."),
    ] = None,
    price: Annotated[str, typer.Option(help="raw, shrunk or both.")] = "both",
    json: AsJson = False,
    plot: Plot = None,
) -> None:
    """Show what a specialist's refining changes, at a raw price and at a shrunk one.

    dU: its utility, dA: gross value of the allocation, dW: value net of costs, rate: share of queries
    that are refined.

    Example: porism route bidder --sweep omega --mu 1.2 --plot change.png
    """
    import numpy as np

    from porism.theory.pandora import bidder_statics

    check_picture(plot)
    check_outputs(plot)
    if price not in ("raw", "shrunk", "both"):
        raise ValueError(f"--price must be raw, shrunk or both, got {price!r}")
    values = dict(zip(files.SWEPT, (m, nu, c, mu, s_other, omega), strict=True))
    name, grid = ("omega", np.array([omega])) if sweep is None else files.sweep(sweep)
    settings: dict[str, Any] = {key.replace("-", "_"): x for key, x in (values | {name: grid}).items()}
    with np.errstate(all="ignore"), files.doubts(bidder):
        found = [
            {"price": word, name: float(x)} | {key: float(value[i]) for key, value in change.items()}
            for word in (("raw", "shrunk") if price == "both" else (price,))
            for change in [bidder_statics(**settings, price=word)]
            for i, x in enumerate(grid)
        ]
    if not all(math.isfinite(x) for row in found for x in row.values() if isinstance(x, float)):
        raise ValueError("the parameters are too large to compute with; measure value in a greater unit")
    if plot is not None:
        from porism.cli._judge import draw_bidder

        draw(plot, lambda figure: draw_bidder(figure, found, name))
    if json:
        fixed = {key: value for key, value in values.items() if key != name}
        echo_json(plain({"parameters": fixed, "rows": found}))
        return
    heads = ("price", name, "dU", "dA", "dW", "refine_rate")
    typer.echo(table([(*heads[:5], "rate"), *([row[head] for head in heads] for row in found)]))


@route.command()
def run(
    router: Saved,
    cost: Annotated[
        str | None, typer.Option(help=f"Cost of a refinement in money: {ONE_EACH} inf for never.")
    ] = None,
    price: Annotated[str | None, typer.Option(help=PRICE)] = None,
    lam: Annotated[float | None, typer.Option(help="Value of a unit of money; 1 by default.")] = None,
    policy: Annotated[
        str | None,
        typer.Option(help="kg_joint, rollout, kg_sigma, … as Router takes them; its choice by default."),
    ] = None,
    outside: Annotated[float | None, typer.Option(help=OUTSIDE)] = None,
    budget: Annotated[float | None, typer.Option(help="Steer lam towards this mean spend a query.")] = None,
    names: Annotated[str | None, typer.Option(help="Names of the specialists, comma between.")] = None,
) -> None:
    """Answer queries on stdin, a JSON object a line, by decisions on stdout, a JSON object a line.

    Every answer is written at once and in order, so that a service can hold the pipe open. Blank lines are
    skipped; fields of other names are ignored. A query is one of

    \b
    {"id": 1, "features": [0.3, 1.2]}            cheap estimator of the fit;
                                                 "expensive_features": […] for the expensive one
    {"id": 2, "cheap": [0.5, 0.4, 0.1]}          the K cheap estimates themselves
    and may hold
    "refined": {"b": 0.9, "2": null}             refined estimates by name or number, or
    "refined": [0.1, 0.9, null]                  all K; null marks a refinement that failed

    Features that fit the expensive estimator serve both (the cheap one takes the first of them). A refined
    estimate counts and costs once the policy asks for it; others are left unused. The answer is

    \b
    {"id": 2, "choice": 1, "name": "b", "value": 0.9, "spend": 0.004, "refined": {"b": 0.9}}
    {"id": 2, "refine": 1, "name": "b"}          refine b, send the query again with that value in "refined"
    {"id": 2, "line": 7, "error": "…"}           the line was bad; the next one is answered

    choice is a number from 0, or -1 for the outside option. Nothing is remembered between lines but counts
    and, with a budget, lam: each line must hold all that is known of its query, which counts once it is
    decided.

    A router that Router.save wrote serves with its own costs, prices, lam, outside option, policy, names and
    budget, at the usual rate; an option takes the place of what it names, and --lam that of the budget too.

    At the end of input counts go to stderr as one JSON object, with null for a mean of nothing. Exit 0: done;
    2: bad options or file, or every line was bad.

    Example: porism route run r.npz --cost 0.004 --lam 1 < queries.jsonl > decisions.jsonl
    """  # noqa: D301
    import dataclasses
    import json

    from porism.cli._service import Service, lines
    from porism.theory.pandora import Router

    if sys.stdin is None:
        raise ValueError("queries come from stdin, which is closed; pipe them into it")
    with files.doubts(run):
        fitted, saved = files.load(router)
        K = len(fitted.names)
        settings: dict[str, Any] = {
            "costs": None if cost is None else files.money("--cost", cost, K, infinite=True),
            "prices": None if price is None else files.numbers("--price", price, K),
            "lam": lam,
            "outside": outside,
            "policy": policy,
            "names": None if names is None else [word.strip() for word in names.split(",")],
        }
        if saved is None and cost is None:
            raise ValueError(f"Missing option '--cost': {router.name} holds a fit, which has no costs.")
        given = {name: value for name, value in settings.items() if value is not None}
        kept = {} if saved is None else {name: getattr(saved, name) for name in settings if name not in given}
        # the service asks the models
        chooser = Router(dataclasses.replace(fitted, cheap_model=None, refined_model=None), **given, **kept)
        if budget is not None:
            chooser.set_budget(budget)
        elif saved is not None and lam is None:
            chooser.set_budget(saved.counters()["budget"], calibrate=False)
    service = Service(chooser, fitted)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a line that overflows is answered by its error
        for number, line in lines(sys.stdin.buffer):
            sys.stdout.write(service.answer(line, number) + "\n")
            sys.stdout.flush()
    if service.useless:
        typer.echo(f"porism route run: {service.useless}", err=True)
    typer.echo(json.dumps(service.report()), err=True)
    if service.useless:
        raise typer.Exit(2)
