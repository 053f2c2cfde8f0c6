"""The pages about other protocols run, against servers on loopback.

In the scheduled workflow, which installs what they need."""

import re
import socket
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import privcontrol as pc

DOCS = Path(__file__).parents[2] / "docs"
SAMPLES = 12


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def device():
    """A Modbus device whose counts say -20.000 m in registers 0 and 1."""
    server = pytest.importorskip("pymodbus.server")
    simulator = pytest.importorskip("pymodbus.simulator")
    words = simulator.SimData(
        0, values=[0xFFFF, 0xB1E0], datatype=simulator.DataType.REGISTERS
    )
    address = ("127.0.0.1", free_port())
    threading.Thread(
        target=server.StartTcpServer,
        args=(simulator.SimDevice(1, simdata=[words]),),
        kwargs={"address": address},
        daemon=True,
    ).start()
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        try:
            socket.create_connection(address, 1).close()
            break
        except OSError:
            time.sleep(0.05)
    yield address[1]
    server.ServerStop()


@pytest.fixture
def cloud():
    """An OPC UA server with a variable, which notes what is written to it."""
    sync = pytest.importorskip("asyncua.sync")
    ua = pytest.importorskip("asyncua.ua")
    server = sync.Server()
    port = free_port()
    server.set_endpoint(f"opc.tcp://127.0.0.1:{port}")
    space = server.register_namespace("cloud")
    name = ua.NodeId("published", space)
    node = server.nodes.objects.add_variable(name, "published", 0.0)
    node.set_writable()
    server.start()
    yield port, space, node
    server.stop()


@pytest.fixture
def design(tmp_path):
    """A short noise for the vehicle, in a file."""
    path = tmp_path / "noise.json"
    pc.design_output_noise(
        pc.plants.vehicle(),
        horizon=SAMPLES,
        budget=pc.PrivacyBudget(epsilon=1.0, delta=1e-2),
        adjacency=pc.StateAdjacency({"position": 1.0}),
        floor=0.1,
        resolution=0.001,
    ).save(path)
    return path


def blocks(page):
    text = page.read_text(encoding="utf8")
    return re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def executed(page, replacements):
    namespace = {"__name__": "page"}
    for source in blocks(page):
        for old, new in replacements.items():
            source = source.replace(old, new)
        exec(compile(source, str(page), "exec"), namespace)
    return namespace


def test_the_code_about_other_protocols_runs(device, cloud, design, monkeypatch):
    """From a Modbus device to an OPC UA server, until the horizon is over."""
    port, space, node = cloud
    monkeypatch.chdir(design.parent)
    Path("epoch").write_text(str(time.time() + 2.0))
    page = executed(
        DOCS / "deployment_protocols.md",
        {
            '"192.0.2.7", port=502': f'"127.0.0.1", port={device}',
            "192.0.2.9:4840": f"127.0.0.1:{port}",
            "ns=2;": f"ns={space};",
        },
    )
    assert page["gateway"].next_index == SAMPLES
    assert 0 < abs(node.read_value() + 20.0) < 8 * np.max(page["noise"].std)
    # the other two ends, in their turn
    readings = page["values"](node)
    reading = next(readings)
    assert reading["y"] == node.read_value()
    assert abs(reading["time"] - time.time()) < 60.0
    with page["ModbusTcpClient"]("127.0.0.1", port=device) as client:
        page["registers"](client)({"index": 0, "y": -1.25})
        assert next(page["positions"](client))["y"] == pytest.approx(-1.25)


def test_frames_of_xarray_go_through_pandas(design):
    pytest.importorskip("xarray")
    pandas = pytest.importorskip("pandas")
    times = pandas.date_range("2026-01-01", periods=5, freq="100ms", name="time")
    data = pandas.DataFrame({"y": 20.0, "u": 0.0}, index=times).to_xarray()
    noise = pc.load(design)
    with pc.Gateway(noise, resolution="0.001") as gateway:
        published = gateway.publish_frame(data[["y"]].to_dataframe()).to_xarray()
    assert list(published) == ["y"]
    assert published.sizes == {"time": 5}
    assert (published["time"] == data["time"]).all()
    assert (published["y"] != 20.0).all()


def test_the_unit_of_a_co_simulation_adds_the_noise_of_its_seed(design, tmp_path):
    builder = pytest.importorskip("pythonfmu.builder")
    fmpy = pytest.importorskip("fmpy")
    page = DOCS / "deployment_fmu.md"
    (tmp_path / "private_output.py").write_text("\n".join(blocks(page)))
    unit = builder.FmuBuilder.build_FMU(
        tmp_path / "private_output.py", dest=tmp_path, project_files={design}
    )
    noise = pc.load(design)
    drawn = noise.sample(1, np.random.default_rng(3))[0, 0]
    times = 0.1 * np.arange(SAMPLES)
    ramp = np.array(list(zip(times, times)), dtype=[("time", float), ("y", float)])
    result = fmpy.simulate_fmu(
        str(unit),
        start_values={"seed": 3},
        input=ramp,
        stop_time=times[-1],
        output_interval=0.1,
        output=["yhat"],
    )
    # an input arrives a step later, and the noise of a sample with that sample
    late = np.append(0.0, times[:-1])
    np.testing.assert_allclose(result["yhat"], late + drawn, atol=1e-9)
