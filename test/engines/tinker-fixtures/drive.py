"""Drives a Tinker server through the recording proxy with the official SDK, and by hand where the SDK cannot.

    python drive.py http://127.0.0.1:18409 BASE_MODEL first|again [MODEL STATE]

`first`: one cycle, repeats, refusals; prints the model and the address of the saved state. `again MODEL STATE`, after a
restart of the server: the lost model, the state in a new model, no room, unloading.
"""

import asyncio
import json
import sys

import httpx
import numpy as np
import tinker
from tinker import types

URL, BASE, PART = sys.argv[1:4]
RANK = 2
# ids without the last, ids without the first
ROWS = [[5, 9, 17, 33, 41, 8, 60], [7, 12, 90, 4]]
ADAM = types.AdamParams(learning_rate=0.01, beta1=0.9, beta2=0.95, eps=1e-8, weight_decay=0.0)
web = httpx.Client(base_url=URL, timeout=600)


def scene(name):
    web.post("/record", content=json.dumps(name)).raise_for_status()
    print("--", name, flush=True)


def datum(ids, **more):
    inputs = {"target_tokens": types.TensorData(data=ids[1:], dtype="int64", shape=[len(ids) - 1])}
    for key, values in more.items():
        inputs[key] = types.TensorData(data=values, dtype="float32", shape=[len(values)])
    return types.Datum(model_input=types.ModelInput.from_ints(ids[:-1]), loss_fn_inputs=inputs)


def cross_entropy():
    return [datum(ids, weights=[1.0] * (len(ids) - 1)) for ids in ROWS]


def sampled(logprobs):
    # Row 0 is rewarded, row 1 is not: advantages grow along the row.
    return [
        datum(
            ids,
            logprobs=[float(one) for one in lp],
            advantages=[(1.0 if row == 0 else -0.5) * (at + 1) for at in range(len(ids) - 1)],
        )
        for row, (ids, lp) in enumerate(zip(ROWS, logprobs))
    ]


def post(path, body, content_type="application/json"):
    """As the SDK posts; waits for the future if there is one."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    answer = web.post(f"/api/v1/{path}", content=content, headers={"content-type": content_type})
    said = answer.json() if "json" in answer.headers.get("content-type", "") else {}
    print("  ", path, answer.status_code, json.dumps(said)[:300], flush=True)
    if answer.status_code == 200 and "request_id" in said:
        for _ in range(20):
            future = web.post(
                "/api/v1/retrieve_future", json={"request_id": said["request_id"], "allow_metadata_only": False}
            )
            if "try_again" not in future.text and future.status_code != 408:
                print("     ", future.status_code, future.text[:200] if "json" in future.headers["content-type"] else
                      f"{len(future.content)} bytes", flush=True)
                return said, future
    return said, answer


def logprobs_of(result):
    return [np.array(one["logprobs"].data, dtype=np.float32) for one in result.loss_fn_outputs]


async def first():
    scene("hello")
    web.get("/api/v1/healthz")
    service = tinker.ServiceClient(base_url=URL, api_key="tml-none")
    print(await service.get_server_capabilities_async())
    scene("create_model")
    training = await service.create_lora_training_client_async(base_model=BASE, rank=RANK, seed=3)
    print(await training.get_info_async())
    model = training.model_id
    scene("forward cross_entropy")
    scored = logprobs_of(await (await training.forward_async(cross_entropy(), "cross_entropy")).result_async())
    print([one.tolist() for one in scored])
    scene("forward_backward importance_sampling and optim_step")
    passed = await training.forward_backward_async(sampled(scored), "importance_sampling")
    step = await training.optim_step_async(ADAM)
    print(await passed.result_async())
    print(await step.result_async())
    scene("forward_backward cross_entropy and optim_step")
    passed = await training.forward_backward_async(cross_entropy(), "cross_entropy")
    step = await training.optim_step_async(ADAM)
    print(await passed.result_async(), await step.result_async())
    scene("forward of the trained model")
    print([one.tolist() for one in logprobs_of(
        await (await training.forward_async(cross_entropy(), "cross_entropy")).result_async())])
    scene("save_weights")
    state = (await (await training.save_state_async("state-1")).result_async()).path
    scene("save_weights_for_sampler")
    adapter = (await (await training.save_weights_for_sampler_async("adapter-1")).result_async()).path
    print(state, adapter)
    scene("archive")
    run, name = adapter.removeprefix("tinker://").split("/")[0], adapter.rsplit("/", 1)[1]
    archive = web.get(f"/api/v1/training_runs/{run}/checkpoints/{name}/archive", follow_redirects=True)
    print(archive.status_code, len(archive.content))
    scene("checkpoints")
    print(web.get(f"/api/v1/training_runs/{model}/checkpoints").text)
    web.get(f"/api/v1/training_runs/{model}")
    web.post("/api/v1/weights_info", json={"tinker_path": state})
    scene("load_weights")
    resumed = await service.create_training_client_from_state_with_optimizer_async(state)
    print([one.tolist() for one in logprobs_of(
        await (await resumed.forward_async(cross_entropy(), "cross_entropy")).result_async())])

    sequence = 100
    adam = {"learning_rate": 0.01, "beta1": 0.9, "beta2": 0.95, "eps": 1e-8, "weight_decay": 0.0}
    scene("the same seq and body twice")
    body = {"model_id": model, "seq_id": sequence, "adam_params": adam, "type": "optim_step"}
    one, _ = post("optim_step", body)
    two, _ = post("optim_step", body)
    print("same future", one.get("request_id") == two.get("request_id"))
    scene("the same seq and another body")
    post("optim_step", body | {"adam_params": adam | {"learning_rate": 0.02}})
    scene("save under a used name")
    post("save_weights", {"model_id": model, "path": "state-1", "seq_id": 101, "type": "save_weights"})
    post("save_weights_for_sampler", {"model_id": model, "path": "adapter-1", "seq_id": 102,
                                      "type": "save_weights_for_sampler"})
    scene("save_weights repeated with its seq")
    again = {"model_id": model, "path": "state-2", "seq_id": 103, "type": "save_weights"}
    post("save_weights", again)
    post("save_weights", again)
    scene("load_weights of a used model")
    post("load_weights", {"model_id": model, "path": state, "optimizer": True, "seq_id": 104, "type": "load_weights"})
    scene("load_weights of a state that is not there")
    fresh = post("create_model", {
        "session_id": service.holder.get_session_id(), "model_seq_id": 90, "base_model": BASE,
        "lora_config": {"rank": RANK, "seed": 1, "train_unembed": True, "train_mlp": True, "train_attn": True},
        "type": "create_model"})[0]["model_id"]
    post("load_weights", {"model_id": fresh, "path": state.replace("state-1", "state-9"), "optimizer": True,
                          "seq_id": 1, "type": "load_weights"})
    scene("grad_clip_norm")
    post("optim_step", {"model_id": model, "seq_id": 105, "adam_params": adam | {"grad_clip_norm": 0.1},
                        "type": "optim_step"})
    scene("forward_backward as JSON")
    post("forward_backward", {"model_id": model, "seq_id": 106, "forward_backward_input": {
        "data": [], "loss_fn": "cross_entropy", "loss_fn_config": {}}})
    scene("advantages one element short")
    # An error of this scene is the answer.
    try:
        row = sampled(scored)[1]
        row.loss_fn_inputs["advantages"] = types.TensorData(data=[1.0, 1.0], dtype="float32", shape=[2])
        print(await (await resumed.forward_backward_async([row], "importance_sampling")).result_async())
    except Exception as error:
        print("refused", error)
    scene("an unknown loss")
    try:
        print(await (await resumed.forward_backward_async(cross_entropy(), "no_such_loss")).result_async())
    except Exception as error:
        print("refused", type(error), str(error)[:300])
    scene("losses")
    # Not gspo and dppo, which SkyRL accepts and then fails: the SDK repeats such a poll for minutes.
    for loss in ["ppo", "cispo", "dro"]:
        try:
            await (await resumed.forward_backward_async(sampled(scored), loss)).result_async()
            print(loss, "ok")
        except Exception as error:
            print(loss, "refused", type(error).__name__, str(error)[:200])
    # Last, since a server may compile for minutes.
    scene("asample")
    sampler = await service.create_sampling_client_async(model_path=adapter)
    params = types.SamplingParams(max_tokens=6, seed=11, temperature=1.0)
    print(await sampler.sample_async(types.ModelInput.from_ints(ROWS[0]), 1, params, include_prompt_logprobs=True))
    print(json.dumps({"model": model, "state": state}))


async def again(model, state):
    adam = {"learning_rate": 0.01, "beta1": 0.9, "beta2": 0.95, "eps": 1e-8, "weight_decay": 0.0}
    scene("after a restart: the old model")
    post("get_info", {"model_id": model, "type": "get_info"})
    post("optim_step", {"model_id": model, "seq_id": 200, "adam_params": adam, "type": "optim_step"})
    scene("after a restart: a repeat of a request that was answered")
    post("optim_step", {"model_id": model, "seq_id": 100, "adam_params": adam, "type": "optim_step"})
    scene("after a restart: the state in a new model")
    service = tinker.ServiceClient(base_url=URL, api_key="tml-none")
    resumed = await service.create_training_client_from_state_with_optimizer_async(state)
    print([one.tolist() for one in logprobs_of(
        await (await resumed.forward_async(cross_entropy(), "cross_entropy")).result_async())])

    scene("an unknown model")
    post("optim_step", {"model_id": "model_none", "seq_id": 1, "adam_params": adam, "type": "optim_step"})
    scene("more models than there is room for")
    for number in range(91, 99):
        said, future = post("create_model", {
            "session_id": service.holder.get_session_id(), "model_seq_id": number, "base_model": BASE,
            "lora_config": {"rank": RANK, "seed": 1, "train_unembed": True, "train_mlp": True, "train_attn": True},
            "type": "create_model"})
        if future.status_code != 200 or "error" in future.text:
            break
    scene("unload_model")
    post("unload_model", {"model_id": resumed.model_id, "type": "unload_model"})
    scene("an unloaded model")
    post("optim_step", {"model_id": resumed.model_id, "seq_id": 50, "adam_params": adam, "type": "optim_step"})
    scene("delete of a checkpoint")
    print(web.delete(f"/api/v1/training_runs/{model}/checkpoints/weights/state-2").status_code)

asyncio.run(first() if PART == "first" else again(*sys.argv[4:6]))
