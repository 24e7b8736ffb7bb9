"""psgd.trainer.steps() of a torch DataLoader: which loaders the workers of a job divide, and what each then gets."""
import unittest

import scripted_psgd
from scripted_psgd import DESCRIBES, RESTORE, SAVE, Psgd, alone

scripted_psgd.forks = True
import torch  # noqa: E402, F401 # for the programs, which are forked

PROGRAM = """
import psgd.trainer, sys, torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, RandomSampler, SequentialSampler, Subset, TensorDataset
torch.set_num_threads(1)
torch.manual_seed(1)
class Data(Dataset):
    def __init__(self, n=7):
        self.n = n
    def __len__(self):
        return self.n
    def __getitem__(self, k):
        return torch.tensor(10 * k)
class Targets(Data):
    targets = %s
class Stream(IterableDataset):
    def __iter__(self):
        return iter([torch.tensor(0), torch.tensor(10)])
class Pairs(DataLoader):
    def __iter__(self):
        return iter([torch.tensor([0, 10])])
x = torch.arange(0, 70, 10)
w = psgd.trainer.open({"w": (1,)})
for batch in psgd.trainer.steps(%s):
    print(*(batch[0] if isinstance(batch, list) else batch).tolist())
    w.stepped(loss=0, samples=2, lr=1)
"""
USED_AS_IT_IS = "psgd: the DataLoader is used as it is"


def program(loader, targets=None):
    return PROGRAM % (targets, loader)


def rows_of(epoch):
    """psgd's, in the tests."""
    return [[4, 0, 2, 1], [1, 2, 3, 4]][epoch % 2]


class Loaders(unittest.TestCase):
    def start(self, loader, targets=None, **plan):
        p = Psgd(program(loader, targets))
        p.rows = lambda r: rows_of(r.epoch)
        return p

    def test_each_worker_gets_its_part_in_the_order_of_each_epoch(self):
        for arguments in "shuffle=True", "num_workers=2, shuffle=True", "num_workers=1, persistent_workers=True", "drop_last=True":
            with self.subTest(arguments), self.start(f"DataLoader(Data(), batch_size=2, {arguments})") as p:
                self.assertEqual(p.begin(), 2)
                for k in range(5):
                    p.local_step(k)
                p.stop()
            self.assertEqual([(r.n, r.batch, r.epoch, r.labels) for r in p.shards], [(7, 2, k, None) for k in (0, 0, 1, 2)])
            self.assertEqual(p.stdout, "40 0\n20 10\n10 20\n30 40\n40 0\n")
            self.assertEqual(
                p.stderr, "psgd: each worker reads its part of the DataLoader's 7 rows, in batches of 2; steps(loader, divide=False) leaves it as it is\n"
            )

    def test_it_goes_on_from_a_checkpoint(self):
        loader = "DataLoader(Data(), batch_size=2, shuffle=True)"
        for at in range(5):
            with self.start(loader) as p:
                p.begin()
                for k in range(5):
                    if k == at:
                        state = p.answer(SAVE, b"")
                    p.local_step(k)
                p.stop()
            with self.start(loader) as q:
                q.begin(n_done=at)
                q.answer(RESTORE, state)
                for k in range(at, 5):
                    q.local_step(k)
                q.stop()
            self.assertEqual(p.stdout.splitlines()[at:], q.stdout.splitlines())

    def test_job_submit_learns_how_many_batches_a_worker_has(self):
        with self.start("DataLoader(Data(), batch_size=2)") as p:
            self.assertEqual(p.begin(DESCRIBES), 2)
            p.stop(flags=DESCRIBES)

    def test_steps_of_an_epoch_are_divided_as_its_batches(self):
        for arguments, due in ("6", 3), ("1", 1), ("6, divide=False", 6):
            with self.start(f"DataLoader(Data(), batch_size=2), steps_per_epoch={arguments}") as p:
                self.assertEqual(p.begin(DESCRIBES), due)
                p.stop(flags=DESCRIBES)

    def test_a_batch_is_not_larger_than_a_workers_part_unless_such_are_dropped(self):
        for drop_last, due in (False, 3), (True, 7):
            with self.start(f"DataLoader(Data(), batch_size=7, drop_last={drop_last})") as p:
                p.begin()
                p.stop()
            self.assertEqual(p.shards[0].batch, due)

    def test_the_rows_have_the_classes_of_the_dataset_where_it_has_any(self):
        cases = {
            "Targets()": ("[3, 1, 3, 1, 2, 0, 0]", [3, 1, 3, 1, 2, 0, 0]),
            "Subset(Targets(), [2, 6, 1, 4, 0])": ("torch.tensor([3, 1, 3, 1, 2, 0, 0])", [3, 0, 1, 2, 3]),
            "TensorDataset(x, torch.tensor([3, 1, 3, 1, 2, 0, 0]))": ("0", [3, 1, 3, 1, 2, 0, 0]),
            "TensorDataset(x, x / 2)": ("0", None),
            "TensorDataset(x, x.reshape(7, 1))": ("0", None),
            "Targets() ": ("[-1] * 7", None),
            "Targets()  ": ("['a'] * 7", None),
            "Targets()   ": ("[{}] * 7", None),
            "Targets()    ": ("[1, 2]", None),
            "Targets()     ": ("[1 << 24] * 7", None),
        }
        for dataset, (targets, due) in cases.items():
            with self.subTest(dataset, targets=targets), self.start(f"DataLoader({dataset}, batch_size=2)", targets) as p:
                p.begin()
                p.stop()
            self.assertEqual(p.shards[0].labels, due)

    def used_as_it_is(self, loader, said="", first="0 10", n_nodes=2):
        with self.subTest(loader), self.start(loader) as p:
            p.begin(n_nodes=n_nodes)
            p.local_step(0)
            p.stop()
        self.assertEqual((p.stdout, p.stderr[: len(USED_AS_IT_IS)]), (first + "\n", said))
        return p.shards

    def test_other_loaders_are_used_as_they_are(self):
        for arguments in (
            "Data(), batch_sampler=[[0, 1]]",
            "Data(), sampler=[0, 1], batch_size=2",
            "Data(), sampler=SequentialSampler([5, 5]), batch_size=2",
            "Data(), sampler=RandomSampler(Data(1), replacement=True, num_samples=2), batch_size=2",
            "Stream(), batch_size=2",
        ):
            first = "0 0" if "replacement" in arguments else "0 10"
            self.assertEqual(self.used_as_it_is(f"DataLoader({arguments})", first=first), [])
        self.used_as_it_is("Pairs(Data(), batch_size=2)")
        self.used_as_it_is("[[torch.tensor([0, 10])]]")
        self.used_as_it_is("DataLoader(Data(), batch_size=2)", n_nodes=1)
        loader = "DataLoader(Data(), batch_size=2)"
        self.assertEqual(self.used_as_it_is(f"{loader}, divide=False"), [])
        part = "DataLoader(Subset(Data(), [w.shard(7, batch=1)[k] for k in (1, 3)]), batch_size=2)"
        self.assertEqual(len(self.used_as_it_is(part, USED_AS_IT_IS)), 2)
        self.assertEqual(len(self.used_as_it_is("DataLoader(Data(), batch_sampler=w.batches(7, 2))", first="40 0")), 2)

    def test_a_program_that_has_divided_other_rows_can_ask(self):
        with self.start("[w.shard(9, batch=1), DataLoader(Data(), batch_size=2)][1], divide=True") as p:
            p.begin()
            p.local_step(0)
            p.stop()
        self.assertEqual((p.stdout, [r.n for r in p.shards]), ("40 0\n", [9, 7, 7]))
        with self.start("DataLoader(Data(), batch_sampler=[[0, 1]]), divide=True") as p:
            p.take_tensors()
            p.accept()
            self.assertTrue(p.take(scripted_psgd.FAILED).text.startswith("divide=True needs a DataLoader of a dataset with a length"))
            p.expects = 1

    def test_a_loop_that_ends_a_pass_early_goes_on_with_the_next_epoch(self):
        text = program("loader").replace("for batch in", "loader = DataLoader(Data(), batch_size=2)\nwhile not w.why:\n  for batch in")
        text = text.replace("    print", "      print").replace("    w.stepped", "      w.stepped") + "      break\n"
        with Psgd(text) as p:
            p.rows = lambda r: rows_of(r.epoch)
            p.begin()
            for k in range(3):
                p.local_step(k)
            p.stop()
        self.assertEqual(p.stdout, "40 0\n10 20\n40 0\n")
        self.assertEqual(p.stderr.count("each worker reads its part"), 1)

    def test_alone_a_loader_is_used_as_it_is(self):
        self.assertEqual(alone(program("DataLoader(Data(), batch_size=4)")), "0 10 20 30\n40 50 60\n")


if __name__ == "__main__":
    unittest.main()
