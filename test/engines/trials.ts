/**
 * The gateway on an engine with vLLM's interface and adapters of our trainer. Ids, log-probs and adapters are compared
 * with the built-in engine, which computes the same tokens. Always: the built-in engine behind that interface; nightly:
 * vLLM itself.
 */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { openMemoryLog } from '@instar/log'
import type { TurnCaptured } from '@instar/events'
import { startRemote, type Remote } from '@instar/engine'
import type { Adapter, LearningEngine, Model, TrainItem } from '@instar/engine/port'
import { adapterFromWeights, isNeutral, openModel, startLearning } from '@instar/policy'
import { trainerConfig } from '@instar/trainer'
import { sse, startRig, turnOf, USER, type Rig } from '../kit/gateway.ts'
import { Line, statusThat } from './rig.ts'
import { promptIdsOf } from './turn-prompt.ts'

/** The shipped model. */
export const MODEL = join(import.meta.dirname, '../../models/tiny')
/** float32 on both sides; observed differences are below 1e-5. */
export const TOLERANCE = 1e-3
const START_MS = 20 * 60_000

/** A server with vLLM's interface that serves the model as `base`. `ended` rejects when it ends by itself. */
export type Behind = { url: string; ended: Promise<never>; stop(): Promise<void> }

/** `target`: folder of the model. `share`: the share of the tokens that answers get; fewer on a slow engine. */
export const trials = (start: () => Promise<Behind>, target = MODEL, share = 1): void => {
  let server: Behind
  let model: Model
  let learner: LearningEngine
  let remote: Remote
  let rig: Rig
  let line: Line
  const folder = mkdtempSync(join(tmpdir(), 'instar-vllm-'))
  const figures: Record<string, unknown> = {}
  const adapters: Adapter[] = []
  /** Tokens. */
  let compared = 0

  before(
    async () => {
      const began = performance.now()
      const [started, tiny, learning] = await Promise.all([
        start(),
        openModel(target),
        startLearning({ model: target }),
      ])
      server = started
      model = tiny
      learner = learning
      remote = await Promise.race([
        startRemote({
          engine: `vllm+${server.url}/v1`,
          model,
          adapters: folder,
          isNeutral,
          startMs: START_MS,
          logLine: (said) => process.stdout.write(`${said}\n`),
        }),
        server.ended,
      ])
      figures['startSeconds'] = Math.round((performance.now() - began) / 1000)
      rig = await startRig({
        log: openMemoryLog(),
        ports: { engine: remote.engine, model: remote.model, toAdapter: adapterFromWeights },
      })
      line = new Line(rig)
      await line.start()
    },
    { timeout: START_MS + 60_000 },
  )

  after(async () => {
    await rig?.stop()
    await remote?.engine.close()
    await learner?.close()
    await server?.stop()
    rmSync(folder, { recursive: true, force: true })
    process.stdout.write(`${JSON.stringify({ model: model?.name, ...figures, compared })}\n`)
  })

  /** An update on artificial turns, whose adapter our trainer writes. */
  const train = async (seed: number): Promise<Adapter> => {
    const { step } = trainerConfig.parse({})
    const answers = ['Paris.', 'I do not know.', 'It is blue.', 'No.']
    const items: TrainItem[] = await Promise.all(
      answers.map(async (answer, at) => {
        const prompt = model.promptIds([USER(`Question ${seed} ${at}?`)], {})
        const completion = [...model.encode(answer), model.endOfTurn[0]!]
        return {
          prompt,
          completion,
          behaviourLogprobs: [...(await learner.score({ prompt, completion, adapter: null, temperature: 1 }))],
          temperature: 1,
          advantage: at % 2 === 0 ? 1 : -1,
          hintPrompt: null,
        }
      }),
    )
    // Without the bounds of a step: the adapter's log-probs are to be told from the base's by far more than the
    // tolerance.
    const settings = { ...step, klParentMax: Infinity, klBaseMax: Infinity, seed }
    const { adapter } = await learner.step(items, settings, { adapter: null, state: null })
    await learner.load(adapter)
    return adapter
  }

  const ask = async (body: object): Promise<TurnCaptured> => {
    const response = await rig.fetch('/v1/chat/completions', {
      json: {
        model: 'policy',
        messages: [USER('What is the capital of France?')],
        max_tokens: Math.ceil(40 * share),
        ...body,
      },
    })
    assert.equal(response.status, 200, await response.clone().text())
    await response.text()
    const turn = await turnOf(rig.log, response.headers.get('x-instar-turn-id'))
    assert.ok(turn.type === 'TurnCaptured')
    return turn
  }

  /** The largest difference between vLLM's log-probs and those of the built-in engine. */
  const apart = async (turn: TurnCaptured, from = rig): Promise<number> => {
    compared += turn.ids.length
    const scored = await learner.score({
      prompt: await promptIdsOf(from.log, turn.turn),
      completion: turn.ids,
      adapter: turn.adapter,
      temperature: turn.sampling.temperature || 1,
    })
    return turn.logprobs.reduce((most, logprob, at) => Math.max(most, Math.abs(logprob - scored[at]!)), 0)
  }

  test('the start line describes the engine', () => {
    figures['line'] = remote.line
    assert.match(
      remote.line,
      /^vllm 0\.32\.0\S* \(base\), 1 of 1 server: token ids, exact log-probs; adapters loaded at run time; context 512 tokens$/,
    )
  })

  test('the base gives ids and log-probs as this engine computes them, at several temperatures', async () => {
    let most = 0
    for (const [seed, temperature] of [1, 0.7, 0.3, 0, 1.5].entries()) {
      const turn = await ask({ seed: seed + 10, temperature })
      assert.equal(turn.tokens, 'exact')
      most = Math.max(most, await apart(turn))
    }
    figures['baseApart'] = most
    assert.ok(most < TOLERANCE, String(most))
  })

  test('the same seed gives the same answer, which ends at its limit or with the id of the end of turn', async () => {
    const [a, b] = [await ask({ seed: 3 }), await ask({ seed: 3 })]
    assert.deepEqual(a.ids, b.ids)
    assert.ok(a.finish === 'length' || a.ids.at(-1) === model.endOfTurn[0])
  })

  test('with top_p and top_k log-probs are those of the remaining tokens, never below those of all', async () => {
    const turn = await ask({ seed: 4, temperature: 1, top_p: 0.8, top_k: 20 })
    assert.equal(turn.tokens, 'exact')
    const whole = await learner.score({
      prompt: await promptIdsOf(rig.log, turn.turn),
      completion: turn.ids,
      adapter: null,
      temperature: 1,
    })
    for (const [at, logprob] of turn.logprobs.entries())
      assert.ok(logprob >= whole[at]! - TOLERANCE, `${logprob} and ${whole[at]}`)
  })

  test('a stop string and a token limit end an answer', async () => {
    const free = await ask({ seed: 5, temperature: 0 })
    const text = Buffer.from(free.text.bytes).toString()
    const stop = text.slice(2, 5)
    const stopped = await ask({ seed: 5, temperature: 0, stop: [stop] })
    assert.deepEqual(
      [Buffer.from(stopped.text.bytes).toString(), stopped.finish, stopped.tokens],
      [text.slice(0, text.indexOf(stop)), 'stop', 'exact'],
    )
    const short = await ask({ seed: 5, temperature: 0, max_tokens: 2 })
    assert.deepEqual([short.ids, short.finish], [free.ids.slice(0, 2), 'length'])
  })

  test('an update of the trainer is loaded, differs from the base, and is served with the log-probs of this engine', async () => {
    for (const number of [1, 2]) {
      const began = performance.now()
      const adapter = await train(number)
      adapters.push(adapter)
      const published = performance.now()
      await line.publishNext(adapter)
      await statusThat(rig, ({ serving }) => serving === number)
      figures[`version${number}`] = {
        trainMs: Math.round(published - began),
        servedMs: Math.round(performance.now() - published),
      }
    }
    let most = 0
    for (const number of [1, 2]) {
      const turn = await ask({ model: `policy@${number}`, seed: 6, temperature: 0.7 })
      assert.deepEqual([turn.adapter, turn.tokens], [adapters[number - 1]!.sha256, 'exact'])
      most = Math.max(most, await apart(turn))
      const asBase = { ...turn, adapter: null }
      assert.ok((await apart(asBase)) > 10 * TOLERANCE, 'the base would have said other log-probs')
    }
    figures['adapterApart'] = most
    assert.ok(most < TOLERANCE, String(most))
  })

  test('each stream keeps its version while versions change', async () => {
    const open = async (name: string) =>
      rig.fetch('/v1/chat/completions', {
        json: {
          model: name,
          messages: [USER('Tell me a story.')],
          stream: true,
          max_tokens: Math.ceil(120 * share),
          temperature: 0.7,
        },
      })
    const responses = await Promise.all(['policy@0', 'policy@1', 'policy', 'policy@1'].map(open))
    await line.rollback(2, 1)
    await Promise.all(
      responses.map(async (response) => {
        for await (const _ of sse(response)) if (_ === '[DONE]') return
      }),
    )
    for (const response of responses) {
      const turn = await turnOf(rig.log, response.headers.get('x-instar-turn-id'))
      assert.ok(turn.type === 'TurnCaptured')
      assert.ok((await apart(turn)) < TOLERANCE)
    }
    await statusThat(rig, ({ serving }) => serving === 1)
  })

  test('an adapter that was unloaded at the server is loaded again before the answer', async () => {
    const [name] = (
      (await (await fetch(`${server.url}/v1/models`)).json()) as { data: { id: string; parent: string | null }[] }
    ).data
      .filter(({ parent, id }) => parent !== null && id.includes(adapters[0]!.sha256.slice(0, 32)))
      .map(({ id }) => id)
    const unloaded = await fetch(`${server.url}/v1/unload_lora_adapter`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ lora_name: name }),
    })
    assert.equal(unloaded.status, 200)
    const turn = await ask({ seed: 7, temperature: 0.7 })
    assert.equal(turn.adapter, adapters[0]!.sha256)
    assert.ok((await apart(turn)) < TOLERANCE)
  })

  test('with one version kept, the previous one is unloaded after its last answer', async () => {
    const adaptersThere = async (): Promise<string[]> =>
      (
        (await (await fetch(`${server.url}/v1/models`)).json()) as { data: { id: string; parent: string | null }[] }
      ).data
        .filter(({ parent }) => parent !== null)
        .map(({ id }) => id)
    const narrow = await startRig({
      log: openMemoryLog(),
      settings: { keepVersions: 1 },
      ports: { engine: remote.engine, model: remote.model, toAdapter: adapterFromWeights },
    })
    try {
      const own = new Line(narrow)
      await own.start()
      const [one, two] = [await train(21), await train(22)]
      const name = `instar-${one.sha256.slice(0, 32)}`
      await own.publishNext(one)
      await statusThat(narrow, ({ serving }) => serving === 1)
      const response = await narrow.fetch('/v1/chat/completions', {
        json: {
          model: 'policy',
          messages: [USER('Tell me a story.')],
          stream: true,
          max_tokens: Math.ceil(300 * share),
          temperature: 2,
        },
      })
      const pieces = sse(response)
      await pieces.next()
      let ended = false
      const rest = (async () => {
        for await (const piece of pieces) if (piece === '[DONE]') ended = true
      })()
      await own.publishNext(two)
      await statusThat(narrow, ({ serving }) => serving === 2)
      const during = await adaptersThere()
      assert.ok(ended || during.includes(name), 'unloaded under an answer')
      figures['drainSeen'] = !ended
      await rest
      const turn = await turnOf(narrow.log, response.headers.get('x-instar-turn-id'))
      assert.ok(turn.type === 'TurnCaptured')
      assert.deepEqual([turn.version, turn.adapter, turn.tokens], [1, one.sha256, 'exact'])
      assert.ok((await apart(turn, narrow)) < TOLERANCE)
      await statusThat(narrow, ({ pool }) => !pool.loaded.includes(1))
      for (const until = Date.now() + 30_000; (await adaptersThere()).includes(name);) {
        assert.ok(Date.now() < until, 'still loaded')
        await new Promise((resolve) => {
          setTimeout(resolve, 20)
        })
      }
    } finally {
      await narrow.stop()
    }
  })

  test('a folder without an adapter is refused with the reason of vLLM', async () => {
    await assert.rejects(
      remote.engine.load({
        ...adapters[0]!,
        sha256: 'f'.repeat(64),
        weights: adapters[0]!.weights.slice(),
        config: Buffer.from('{}'),
      }),
      { code: 'adapter_refused' },
    )
  })
}
