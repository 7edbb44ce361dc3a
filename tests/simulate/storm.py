"""A `storm` is one seed's run: a random mesh with random clients, storms of random faults, and calms between them."""

from __future__ import annotations

import logging
import signal
import threading
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from random import Random

import trio

import trxds
from trxds.testing import Simulation
from trxds.testing.simulation.simulation import PLANE_ADDRESS

from . import calm_invariants, drills, faults, invariants, load_invariants, memory
from .calls import CancelAtStep, Seen
from .custom_policy import POLICIES
from .model import MeshModel
from .probe import PlainProbe, Probe
from .traffic import call_in_a_pool, call_in_sessions, call_outside_of_sessions, rebalance
from .world import SETTLED, Client, World

MINUTES = 10.0
PAUSES = (
    0.0,
    0.0005,
    0.003,
    0.05,
    0.3,
    1.0,
    3.0,
    10.0,
)  # seconds after a fault; the shorter ones let the next overlap it
PLAIN_POLICIES = ("round_robin", "pick_first", "least_request_experimental", "ring_hash_experimental")
LONGEST = 60.0  # seconds of processor time for a seed, which takes about one
MEASURED = 0.1  # of the storms are followed by a count of what is in memory, which takes as long as a tenth of a run
WATCHED = 20.0  # seconds of calm in which every call has to succeed


@dataclass(frozen=True)
class Result:
    """What a seed's run found, and what it did."""

    seed: int
    violations: tuple[str, ...]
    trace: tuple[str, ...]
    counts: Counter[str]
    seconds: float  # of virtual time
    digest: str  # of the traffic: the same for the same seed


def run(seed: int, minutes: float = MINUTES) -> Result:
    """Run a seed. An exception that leaves the run is a violation too."""
    worlds: list[World] = []

    async def scenario(mesh: Simulation) -> None:
        worlds.append(World(mesh, await MeshModel.generate(mesh)))
        await play(worlds[0], 60 * minutes)

    mesh, violations = Simulation(seed), []
    try:
        with no_step_runs_forever(), no_exception_is_only_logged(violations):
            mesh.run(scenario)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        violations.append(_crash(error))
    world = worlds[0] if worlds else None
    found = world.violations if world is not None else []
    return Result(
        seed,
        (*found, *violations),
        tuple(world.trace) if world is not None else (),
        world.counts if world is not None else Counter(),
        60 * minutes,
        mesh.traffic.digest,
    )


class TakesTooLongError(BaseException):
    """A run has used too much processor time. No `Exception`, which policies and observers may raise unharmed."""


@contextmanager
def no_step_runs_forever() -> Iterator[None]:
    """Raise `TakesTooLongError` where the program is: a loop without end lets no clock jump."""

    def stop(number: int, frame: object) -> None:
        raise TakesTooLongError(f"the run has used {LONGEST} s of processor time")

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, LONGEST, 1.0)  # again, where a `finally` goes on
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


@contextmanager
def no_exception_is_only_logged(violations: list[str]) -> Iterator[None]:
    """Add what the client logs as an error: an exception of a policy, a task or an observer harms no one else."""
    logger, handler = logging.getLogger("trxds"), _Errors(violations)
    logger.addHandler(handler)
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)
        logger.removeHandler(handler)


class _Errors(logging.Handler):
    def __init__(self, violations: list[str]) -> None:
        super().__init__(logging.ERROR)
        self._violations = violations

    def emit(self, record: logging.LogRecord) -> None:
        self._violations.append(f"no_exception_leaves_the_client: {logging.Formatter().format(record)[-3000:]}")


def _crash(error: BaseException) -> str:
    return "no_exception_leaves_the_client: " + "".join(traceback.format_exception(error))[-6000:]


async def play(world: World, seconds: float) -> None:
    """Play one run of so many seconds."""
    random, cancel = world.mesh.random("storm"), CancelAtStep()
    before = tasks_of_clients()
    trio.lowlevel.add_instrument(cancel)
    async with AsyncExitStack() as stack:
        if random.random() < 0.15:
            # A71: clients begin at the second control plane, and those that have none wait for the first.
            world.shake(PLANE_ADDRESS)
            world.mesh.plane_server.stop()
        await open_clients(world, stack)
        async with trio.open_nursery() as traffic:
            for client in world.clients:
                for number in range(random.randint(1, 3)):
                    traffic.start_soon(call_in_sessions, world, client, f"{client.name}/session-{number}", cancel)
                traffic.start_soon(call_outside_of_sessions, world, client, f"{client.name}/calls", cancel)
                if random.random() < 0.3:
                    traffic.start_soon(call_in_a_pool, world, client, f"{client.name}/pool", cancel)
                if client.rebalances:
                    traffic.start_soon(rebalance, client)
            end = trio.current_time() + seconds - SETTLED - WATCHED
            first_sizes: Counter[str] | None = None
            while trio.current_time() < end:
                await rage(world, random, min(end, trio.current_time() + random.uniform(20, 150)))
                await rest(world, random, cancel)
                if random.random() < MEASURED and first_sizes is None:
                    first_sizes = memory.sizes()
                elif first_sizes is not None:
                    memory.a_channel_keeps_no_more_after_each_storm(world, first_sizes)
            traffic.cancel_scope.cancel()
        # A response may be under way to a call that was cancelled, and clusters end in a later step.
        await trio.sleep(load_invariants.AFTER_CALLS)
        invariants.counts_return_to_zero(world)
        load_invariants.no_reported_call_goes_on_for_ever(world)
        for client in world.clients:
            client.probe = client.channel = None
    await trio.sleep(1.0)
    invariants.a_closed_channel_leaves_nothing(world, before, tasks_of_clients())
    trio.lowlevel.remove_instrument(cancel)


def tasks_of_clients() -> Counter[str]:
    """Return the names of all tasks, without those that serve a connection of the control plane.

    A server is not told of the end of a half-open connection, so such a task may stay.
    """
    todo, names = [trio.lowlevel.current_root_task()], Counter[str]()
    while todo:
        task = todo.pop()
        if task is not None and not task.name.endswith("_serve_listeners._run_handler"):
            names[task.name] += 1
            todo += [child for nursery in task.child_nurseries for child in nursery.child_tasks]
    return names


async def open_clients(world: World, stack: AsyncExitStack) -> None:
    """Open the channels: some of their own, some that share an xDS client."""
    random, mesh, planes = world.mesh.random("clients"), world.mesh, world.model.planes
    shared = None
    for number in range(random.randint(1, 3)):
        name = f"client-{number}"
        service = random.choice(list(world.model.services))
        features = ("xds_v3", *random.choice([(), (), ("trxds.delta",)]))
        network_name, options = name, {}
        if random.random() < 0.5:
            if shared is None:
                client = trxds.open_xds_client(
                    bootstrap=planes.bootstrap(mesh, "shared", features=features, falls_back=True),
                    network=mesh.network.of("shared"),
                    policies=POLICIES,
                )
                shared = await stack.enter_async_context(client)
            network_name, options, falls_back = "shared", {"xds": shared}, True
        else:
            falls_back = random.random() < 0.5
            bootstrap = planes.bootstrap(mesh, name, features=features, falls_back=falls_back)
            options = {"bootstrap": bootstrap, "policies": POLICIES}
        client = Client(
            name,
            service,
            network_name,
            sticky_aggregates=random.random() < 0.5,
            keepalive=random.random() < 0.5,
            idle_timeout=random.choice([None, None, 20.0]),
            strict=world.model.services[service].strict,
            ttl=world.model.services[service].ttl,
            falls_back=falls_back,
            rebalances=random.random() < 0.2,
        )
        client.channel = await stack.enter_async_context(
            mesh.open_channel(
                f"xds:///{service}",
                client=network_name,
                sticky_aggregates=client.sticky_aggregates,
                keepalive_time=10.0 if client.keepalive else None,
                idle_timeout=client.idle_timeout,
                telemetry=Seen(world, client),
                **options,
            )
        )
        client.probe = Probe(client.channel, options.get("xds"))
        world.clients.append(client)
    if random.random() < 0.4:
        await open_plain_client(world, stack, random)


async def open_plain_client(world: World, stack: AsyncExitStack, random: Random) -> None:
    """Open a channel without a control plane, whose service config has what xDS has not: hedging, throttling."""
    hosts = world.model.hosts_with_one_address
    addresses = random.sample(hosts, random.randint(1, len(hosts)))
    target = f"ipv4:{','.join(addresses)}"
    strict = random.random() < 0.2
    policy, checks_health = random.choice(PLAIN_POLICIES), random.random() < 0.5
    client = Client(
        "plain",
        "",
        "plain",
        sticky_aggregates=False,
        keepalive=True,
        idle_timeout=None,
        strict=strict,
        addresses=tuple(addresses),
        policy=policy,
        checks_health=checks_health,
    )
    codes = ["UNAVAILABLE", "INTERNAL"]
    backoff = {"initialBackoff": "0.1s", "maxBackoff": "1s", "backoffMultiplier": 2}
    many = random.choice(
        [
            {"hedgingPolicy": {"maxAttempts": 3, "hedgingDelay": "0.05s", "nonFatalStatusCodes": codes}},
            {"hedgingPolicy": {"maxAttempts": 2, "hedgingDelay": "0s"}},
            {"retryPolicy": {"maxAttempts": 3, "retryableStatusCodes": codes, **backoff}},
        ]
    )
    throttling = random.choice([{}, {"retryThrottling": {"maxTokens": 10, "tokenRatio": 0.5}}])
    # While retries are throttled, an attempt has no time limit of its own.
    if "retryPolicy" in many and not throttling and random.random() < 0.7:
        client.attempt_timeout = 0.7
        many["retryPolicy"]["perAttemptRecvTimeout"] = "0.7s"
    config = {
        "loadBalancingConfig": [{policy: {}}],
        "methodConfig": [{"name": [{"service": "shop.Cart"}], **many}],
        **throttling,
        **({"healthCheckConfig": {"serviceName": "shop.Cart"}} if checks_health else {}),
    }
    client.channel = await stack.enter_async_context(
        world.mesh.open_channel(
            target,
            client="plain",
            service_config=config,
            affinity=trxds.CookieAffinity("session", strict=strict),
            keepalive_time=10.0,
            telemetry=Seen(world, client),
        )
    )
    client.probe = PlainProbe(client.channel, client.channel.target, addresses)
    world.clients.append(client)


async def rage(world: World, random: Random, end: float) -> None:
    """Let faults come one after the other until then."""
    settling: dict[Client, float] = {}
    while trio.current_time() < end:
        fault = random.choices(list(faults.FAULTS), list(faults.FAULTS.values()))[0]
        world.note(f"{fault.__name__} ...")
        world.note(f"{fault.__name__}: {await fault(world, random)}")
        world.counts[fault.__name__] += 1
        await trio.sleep(random.choice(PAUSES))
        invariants.a_configuration_settles_in_a_moment(world, settling)
        invariants.no_call_goes_on_for_ever(world)
        invariants.nobody_waits_for_a_pool_with_room(world)


async def rest(world: World, random: Random, cancel: CancelAtStep) -> None:
    """Repair the mesh, wait until it has settled, and watch it for a while."""
    await faults.repair(world, random)
    world.note("repair")
    await trio.sleep(SETTLED)
    world.counts["calms"] += 1
    since = trio.current_time()
    for half in range(2):
        for invariant in calm_invariants.ALL:
            invariant(world)
        invariants.no_call_goes_on_for_ever(world)
        invariants.nobody_waits_for_a_pool_with_room(world)
        await trio.sleep(WATCHED / 2)
        if not half:
            load_invariants.end_load_streams(world)
    load_invariants.a_load_report_has_every_call(world, since)
    load_invariants.a_client_reports_the_load_that_is_asked_for(world, since)
    for client in world.clients:
        world.shaken[None, None] = world.changed_at = trio.current_time()  # calls under way meet the resets
        await drills.all_at_once(world, client, random, cancel)
        await drills.all_across_a_goaway(world, client, random, cancel)
    for client in world.clients:
        await drills.no_call_where_a_host_does_not_serve(world, client, random, cancel)
    if random.random() < 0.3:
        await drills.a_client_begins_at_the_second_control_plane(world, random)
