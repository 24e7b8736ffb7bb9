"""A trained model computes in torch what it computes in psgd, and a module of torch trains on in psgd."""
import json
import os
import tempfile
import unittest
from pathlib import Path

import psgd
import torch
from arrays import make_targets, write_npy
from psgd import torch_layers
from torch import nn

# The outputs of a model are float32 sums of up to a few hundred terms near 1: 16 roundings of 2^-24.
NEAR = 1e-6


def L(kind, **keys):
    return {"kind": kind, **keys}


OUT = L("dense", units=3)
EACH = {"positionwise": True, "bias": False}
# name: input, layers. Each ends with three outputs.
MODELS = {
    "dense": ([7], [L("dense", units=5), L("tanh"), OUT]),
    "dense-on-image": ([3, 4, 2], [L("relu"), OUT]),
    "conv-same-stride": (
        [7, 6, 2],
        [L("conv2d", filters=4, kernel=3, stride=2, padding="same"), L("relu"), L("flatten"), L("sigmoid"), OUT],
    ),
    "conv-valid": ([5, 6, 3], [L("conv2d", filters=4, kernel=[2, 3], stride=[1, 2]), L("leaky_relu"), OUT]),
    "conv-symmetric": (
        [5, 5, 2],
        [L("conv2d", filters=3, kernel=3, padding="same"), L("gelu"), L("batch_norm"), OUT],
    ),
    "pools": ([8, 9, 2], [L("max_pool", size=3, stride=2, padding="same"), L("avg_pool", size=2, padding="same"), OUT]),
    "pools-uneven": (
        [8, 8, 2],
        [L("avg_pool", size=3, stride=2, padding="same"), L("max_pool", size=3, stride=2, padding="same"), OUT],
    ),
    "norms": (
        [3, 4, 6],
        [L("layer_norm"), L("flatten"), L("batch_norm", momentum=0.3), L("layer_norm"), L("dropout", rate=0.2), OUT],
    ),
    "activations": (
        [6],
        [L("dense", units=9), L("hard_tanh", slope=0.1), L("hard_tanh"), L("softmax"), L("linear"), OUT],
    ),
    "reshape-to-image": (
        [12],
        [L("dense", units=12), L("reshape", shape=[2, 3, 2]), L("conv2d", filters=2, kernel=2), OUT],
    ),
    "reshape-of-image": (
        [4, 3, 2],
        [L("conv2d", filters=2, kernel=1), L("reshape", shape=[4, 6]), L("lstm", units=5), OUT],
    ),
    "ends-with-image": ([4, 4, 1], [L("conv2d", filters=3, kernel=4), L("flatten")]),
    "ends-flat": ([2, 4, 1], [L("conv2d", filters=1, kernel=[2, 2]), L("tanh"), L("flatten")]),
    "lstm-gru": ([5, 4], [L("lstm", units=6, sequences=True), L("gru", units=3)]),
    "time-norms": (
        [5, 4],
        [L("batch_norm"), L("layer_norm"), L("gru", units=4, sequences=True), L("softmax"), L("mean_over_time"), OUT],
    ),
    "residual": (
        [5, 4],
        [
            L("residual", layers=[L("rms_norm"), L("dense", units=7, positionwise=True), L("dense", units=4, **EACH)]),
            L("position_embedding", positions=6),
            L("layer_norm", bias=False),
            L("residual", layers=[L("layer_norm"), L("attention", heads=2)]),
            L("attention", heads=1, bias=False, rope=100.0, dropout=0.1),
            L("dense", units=8, positionwise=True),
            L("swiglu"),
            L("lstm", units=3),
            L("residual", layers=[L("dense", units=3, bias=False)]),
            OUT,
        ],
    ),
    "residual-of-image": (
        [4, 4, 2],
        [L("residual", layers=[L("conv2d", filters=2, kernel=3, padding="same"), L("relu")]), L("tanh"), OUT],
    ),
    "tied": (
        [1],
        [L("embedding", vocab=3, units=4), L("residual", layers=[L("attention", heads=2)]), L("head", tied=0)],
    ),
    "tokens": (
        [6],
        [
            L("embedding", vocab=11, units=4),
            L("lstm", units=5, sequences=True),
            L("gru", units=4, sequences=True),
            L("mean_over_time"),
            OUT,
        ],
    ),
}


def npy(vocab):
    return f"npy:vocab={vocab}" if vocab else "npy"


def as_torch(samples, shape, tokens):
    x = torch.tensor(samples, dtype=torch.long if tokens else torch.float32).reshape(-1, *shape)
    return x.permute(0, 3, 1, 2) if len(shape) == 3 else x


class InFolder(unittest.TestCase):
    def setUp(self):
        self.was = os.getcwd()
        self.folder = tempfile.TemporaryDirectory()
        os.chdir(self.folder.name)
        self.addCleanup(self.folder.cleanup)
        self.addCleanup(os.chdir, self.was)

    def predicted(self, run, output, n=3):
        run.predict(output)
        table = psgd.records.read(Path(output), pandas=False)
        names = ["predicted"] if n == 1 else [f"predicted_{k}" for k in range(n)]
        return torch.tensor([list(table[name]) for name in names], dtype=torch.float64).T


class ModelsOfPsgd(InFolder):
    def train(self, name):
        shape, layers = MODELS[name]
        vocab = layers[0].get("vocab", 0)
        samples = make_targets(Path("data"), shape, 3, vocab=vocab)
        document = {"version": 1, "name": name, "input": shape, "layers": layers, "loss": "mse"}
        Path("model.json").write_text(json.dumps(document))
        run = psgd.simulate(
            model="model.json", codec="plain", batch_size=8, epochs=3, dataset=npy(vocab), data="data",
            gradient_descent="adam", learn_rate=0.02, output=f"out-{name}",
        )  # fmt: skip
        return run, as_torch(samples, shape, vocab)

    def near(self, module, x, expected, bound=NEAR):
        with torch.no_grad():
            got = module(x).reshape(len(x), -1).double()
        self.assertEqual(got.shape, expected.shape)
        self.assertLess((got - expected).abs().max().item(), bound)

    def test_each_kind_of_layer_gives_the_outputs_of_predict_and_goes_back(self):
        for name in MODELS:
            with self.subTest(name):
                run, x = self.train(name)
                expected = self.predicted(run, f"{run.folder}/predictions.csv")
                self.assertGreater(expected.std(0).min().item(), 1e-4, "the model tells its samples apart")
                module = run.to_torch()
                self.near(module, x, expected)
                # A state_dict is of the same module.
                again = run.to_torch()
                for p in again.parameters():
                    nn.init.constant_(p, 0.5)
                again.load_state_dict(run.load_model(torch=True))
                self.near(again, x, expected)
                # And back: the same tensors, under names that psgd knows; it predicts the same.
                psgd.to_safetensors(module, "back.safetensors", input=MODELS[name][0], loss="mse")
                before, after = run.load_model(), psgd.load_model("back.safetensors")
                self.assertEqual(
                    {k: (tuple(v.shape), v.tobytes()) for k, v in before.items()},
                    {k: (tuple(v.shape), v.tobytes()) for k, v in after.items()},
                )

    def test_models_that_psgd_ships_give_the_outputs_of_predict(self):
        for name in "lenet-bn", "lstm-rows", "lstm-text":
            path = Path(os.environ["BUILD"], "models", f"{name}.json")
            document = {**json.loads(path.read_text()), "loss": "mse", "metrics": []}
            with self.subTest(name), tempfile.TemporaryDirectory(dir=".") as folder:
                shape, vocab = document["input"], document["layers"][0].get("vocab", 0)
                outputs = [layer["units"] for layer in document["layers"] if "units" in layer][-1]
                samples = make_targets(Path(folder, "data"), shape, outputs, n=4, vocab=vocab)
                Path(folder, "model.json").write_text(json.dumps(document))
                run = psgd.simulate(
                    model=f"{folder}/model.json", codec="plain", epochs=1, batch_size=4, dataset=npy(vocab),
                    data=f"{folder}/data", output=f"{folder}/out",
                )  # fmt: skip
                expected = self.predicted(run, f"{folder}/predictions.csv", outputs)
                self.near(run.to_torch(), as_torch(samples, shape, vocab), expected, 1e-5)


class ModulesOfTorch(InFolder):
    def test_a_module_trains_on_from_its_own_accuracy(self):
        torch.manual_seed(1)
        net = nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
            nn.Sequential(nn.Flatten(), nn.Linear(4 * 9, 16), nn.Tanh()), nn.Dropout(0.1), nn.Linear(16, 3),
        )  # fmt: skip
        samples = make_targets(Path("data"), [6, 6, 1], 3, n=32)
        x = as_torch(samples, [6, 6, 1], False)
        teacher = torch.randn(36, 3)
        y = (x.flatten(1) - 0.5) @ teacher
        for half in "train", "test":
            write_npy(Path("data") / f"y_{half}.npy", [32, 3], y.flatten().tolist(), "f4")
        optimizer = torch.optim.Adam(net.parameters(), 0.01)
        for _ in range(60):
            optimizer.zero_grad()
            nn.functional.mse_loss(net(x), y).backward()
            optimizer.step()
        net.eval()
        with torch.no_grad():
            own = nn.functional.mse_loss(net(x), y).item()
        document = psgd.to_safetensors(net, "net.safetensors", input=(6, 6, 1), loss="mse", metrics=["rmse"])
        self.assertEqual(document, Path("net.json"))
        found = psgd.predict("net.safetensors", "predictions.csv", dataset="npy", data="data")
        self.assertAlmostEqual(found["loss"], own, delta=1e-5 * own)
        # Its training goes on from there; without these weights it begins anew.
        options = dict(model=document, dataset="npy", data="data", batch_size=32, codec="plain", gradient_descent="adam")
        more = self.job(init_from="net.safetensors", epochs=100, learn_rate=0.005, **options)
        self.assertLess(more.records("eval", pandas=False)[0]["loss"], 2 * own)
        self.assertLess(more.loss, 0.95 * own)
        anew = self.job(epochs=1, learn_rate=0.005, **options)
        self.assertGreater(anew.loss, 2 * own)

    def job(self, **options):
        return psgd.submit(workers=os.environ["WORKERS"], node_count=1, output=tempfile.mkdtemp(dir="."), **options).wait()

    def test_what_psgd_does_not_have_is_named(self):
        image = (6, 6, 2)
        cases = [
            (nn.Sequential(nn.Linear(4, 3), nn.LogSoftmax(1)), None, "the loss softmax_cross_entropy has it"),
            (nn.Sequential(nn.Conv2d(2, 4, 3, groups=2)), image, "psgd has no groups"),
            (nn.Sequential(nn.Conv2d(2, 4, 3, dilation=2)), image, "psgd has no dilation"),
            (nn.Sequential(nn.Conv2d(2, 4, 3, padding=2)), image, "neither none nor psgd's"),
            (nn.Sequential(nn.Conv2d(2, 4, 3), nn.Linear(4, 2)), image, "put a Flatten before it"),
            (nn.Sequential(nn.Conv2d(2, 4, 3)), None, "input= is needed"),
            (nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten()), image, "layer 0"),
            (nn.Sequential(nn.LSTM(4, 3, batch_first=True)), (5, 4), "psgd.torch_layers.LSTM"),
            (nn.Sequential(nn.Linear(4, 3), nn.GELU()), None, 'approximate="tanh"'),
            (nn.Sequential(nn.AvgPool2d(3, 1, padding=1), nn.Flatten(), nn.Linear(72, 3)), image, "count_include_pad"),
            (nn.Sequential(nn.ReLU()), (3,), "without parameters"),
        ]
        for module, shape, sentence in cases:
            with self.subTest(sentence), self.assertRaisesRegex(psgd.Invalid, sentence.replace("(", r"\(").replace(")", r"\)")):
                psgd.to_safetensors(module, "x.safetensors", input=shape)
        with self.assertRaisesRegex(psgd.Invalid, "ends with .safetensors"):
            psgd.to_safetensors(nn.Sequential(nn.Linear(2, 2)), "x.pt")
        self.assertEqual(list(Path(".").iterdir()), [])

    def test_the_model_of_a_training_program_is_the_state_of_its_module(self):
        net = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
        state = {name: t for name, t in net.state_dict().items() if t.is_floating_point()}
        tensors = [{"name": name, "shape": list(t.shape)} for name, t in state.items()]
        arch = {"version": 1, "name": "train.py", "trainer": True, "tensors": tensors}
        psgd.write_safetensors("m.safetensors", {n: t.numpy() + 1 for n, t in state.items()}, {"arch": json.dumps(arch)})
        loaded = psgd.load_model("m.safetensors", torch=True)
        missing, unexpected = net.load_state_dict(loaded, strict=False)
        self.assertEqual((missing, unexpected), ([], []))  # batch norm does without its integer
        self.assertTrue(torch.equal(net[1].running_var, torch.full((3,), 2.0)))
        with self.assertRaisesRegex(psgd.Invalid, "its module is that of a training program"):
            psgd.to_torch("m.safetensors")

    def test_recurrent_layers_and_other_forms_go_there_and_back(self):
        nets = [
            (nn.Sequential(torch_layers.LSTM(4, 5, True), torch_layers.GRU(5, 3)), (6, 4), torch.randn(2, 6, 4)),
            (nn.Sequential(nn.Linear(6, 12), nn.Unflatten(1, (3, 4)), torch_layers.GRU(4, 3)), None, torch.randn(2, 6)),
            (
                nn.Sequential(nn.Conv2d(2, 5, 3, padding="same"), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(5, 3)),
                (4, 5, 2),
                torch.randn(2, 2, 4, 5),
            ),
            (
                torch_layers.Text(nn.Embedding(9, 4), torch_layers.MeanOverTime(), nn.Linear(4, 3)),
                (5,),
                torch.tensor([[1, 2, 0, 0, 0], [3, 0, 4, 5, 6]]),
            ),
        ]  # fmt: skip
        for net, shape, x in nets:
            with self.subTest(str(net)):
                psgd.to_safetensors(net, "net.safetensors", input=shape, loss="mse")
                with torch.no_grad():
                    self.assertLess((net.eval()(x) - psgd.to_torch("net.safetensors")(x)).abs().max().item(), NEAR)

    def test_a_window_of_a_stream_has_no_padding(self):
        net = nn.Sequential(nn.Embedding(9, 4), torch_layers.LSTM(4, 5, True), nn.Linear(5, 9)).eval()
        x = torch.tensor([[1, 2, 0, 0, 0], [0, 0, 0, 0, 0], [3, 0, 4, 5, 6]])
        psgd.to_safetensors(net, "net.safetensors", input=(5,), loss="token_cross_entropy")
        with torch.no_grad():
            self.assertLess((net(x) - psgd.to_torch("net.safetensors")(x)).abs().max().item(), NEAR)


if __name__ == "__main__":
    unittest.main()
