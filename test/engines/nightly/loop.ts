/**
 * `instar up` with INSTAR_ENGINE=vllm+…: conversations become an update that vLLM serves; a rollback; and vLLM killed
 * during answers, once completely and once only its worker process.
 */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { createTurnReader } from '@instar/log'
import type { LearningEngine } from '@instar/engine/port'
import { adapterFromWeights, openModel, startLearning } from '@instar/policy'
import type { TurnCaptured } from '@instar/events'
import { ask, question, sessions } from '../../kit/people.ts'
import { dataFolder, done, serves, up, type Up } from '../../flow/process.ts'
import { BATCH, witness, type Witness } from '../../flow/witness.ts'
import { MODEL, TOLERANCE } from '../trials.ts'
import { startVllm, type Vllm } from './server.ts'

/** Batches that the gate may reject before one is accepted. */
const PATIENCE = 6
const START_MS = 10 * 60_000

type Card = { id: string; parent: string | null; root: string }

export const loop = (): void => {
  const data = dataFolder()
  const figures: Record<string, unknown> = {}
  /** The adapters of vLLM by name, with the folder that each was loaded from. */
  const names = new Map<string, string>()
  let vllm: Vllm
  let pipeline: Up
  let seen: Witness
  let learner: LearningEngine
  let where: { data: string; url: string }

  const adaptersThere = async (): Promise<string[]> => {
    const { data: cards } = (await (await fetch(`${vllm.url}/v1/models`)).json()) as { data: Card[] }
    const adapters = cards.filter(({ parent }) => parent !== null)
    for (const { id, root } of adapters) {
      assert.equal(names.get(id) ?? root, root, `${id} stands for other bytes now`)
      names.set(id, root)
    }
    return adapters.map(({ id }) => id)
  }
  const nameOf = (version: number): string => `instar-${seen.line.versions.get(version)!.adapter!.slice(0, 32)}`

  const turnOf = async (turn: string): Promise<TurnCaptured> =>
    seen.until('the turn', () => seen.events('TurnCaptured').find((event) => event.turn === turn))

  /** The largest difference between vLLM's log-probs and ours; checks exactness. */
  const apart = async (turn: TurnCaptured): Promise<number> => {
    assert.deepEqual([turn.tokens, turn.logprobs.length, turn.trainable], ['exact', turn.ids.length, true])
    if (turn.adapter !== null)
      await learner.load(
        adapterFromWeights(readFileSync(join(data, 'adapters', turn.adapter, 'adapter_model.safetensors'))),
      )
    const prompt = await createTurnReader(seen.log, (id) => seen.turns.turns.get(id)).promptIds(turn.turn)
    const scored = await learner.score({
      prompt,
      completion: turn.ids,
      adapter: turn.adapter,
      temperature: turn.sampling.temperature,
    })
    return turn.logprobs.reduce((most, logprob, at) => Math.max(most, Math.abs(logprob - scored[at]!)), 0)
  }

  let talks = 0
  const teach = async (behind: number): Promise<number> => {
    for (let wave = 0; wave < PATIENCE; wave += 1) {
      await sessions(pipeline.client, talks, BATCH)
      talks += BATCH
      await seen.learned()
      const newest = Math.max(0, ...seen.line.versions.keys())
      if (newest > behind) return newest
    }
    throw new Error(`the gate rejected ${PATIENCE} batches: ${seen.summary()}`)
  }

  const ready = async (): Promise<{ status: number; said: string }> => {
    const response = await fetch(`${where.url}/health/ready`)
    return { status: response.status, said: ((await response.json()) as { status: string }).status }
  }
  const readyThat = async (status: number): Promise<number> => {
    const begin = performance.now()
    while ((await ready()).status !== status) {
      assert.ok(performance.now() - begin < START_MS)
      await pause(100)
    }
    return Math.round((performance.now() - begin) / 1000)
  }

  before(
    async () => {
      vllm = await startVllm(MODEL)
      const begin = performance.now()
      // The start waits for the engine; the test limits that wait.
      while (
        !(await fetch(`${vllm.url}/version`).then(
          ({ ok }) => ok,
          () => false,
        ))
      ) {
        assert.ok(performance.now() - begin < START_MS)
        await Promise.race([pause(500), vllm.ended])
      }
      pipeline = await up(data, { INSTAR_ENGINE: `vllm+${vllm.url}/v1`, INSTAR_MODEL: MODEL })
      where = { data, url: pipeline.ready.url }
      seen = await witness(data)
      await openModel(MODEL)
      learner = await startLearning({ model: MODEL })
    },
    { timeout: START_MS },
  )

  after(async () => {
    await learner?.close()
    await seen?.stop()
    await pipeline?.stop()
    await vllm?.stop()
    process.stdout.write(`${JSON.stringify({ loop: figures })}\n`)
  })

  test('the pipeline starts on vLLM', () => {
    figures['engine'] = pipeline.ready.engine
    assert.match(
      pipeline.ready.engine,
      /^vllm 0\.32\.0\S* \(base\), 1 of 1 server: token ids, exact log-probs; adapters loaded at run time/,
    )
  })

  test('turns on the base become a version, and the next answer has the log-probs that this engine computes for that version', async () => {
    const begin = performance.now()
    assert.equal(await teach(0), 1)
    await serves(pipeline, 1)
    figures['firstVersionSeconds'] = Math.round((performance.now() - begin) / 1000)
    assert.deepEqual(await adaptersThere(), [nameOf(1)])
    const answer = await ask(pipeline.client, [{ role: 'user', content: question(1) }])
    assert.equal(answer.version, 1)
    const spoken = await turnOf(answer.turn)
    assert.equal(spoken.adapter, seen.line.versions.get(1)!.adapter)
    const difference = await apart(spoken)
    figures['versionApart'] = difference
    assert.ok(difference < TOLERANCE, String(difference))
    const asBase = await apart({ ...spoken, adapter: null })
    figures['versionFromBase'] = asBase
    assert.ok(asBase > 10 * TOLERANCE, String(asBase))
    const [batch] = seen.chain.batches
    figures['behaviourGap'] = batch?.update?.event.figures['behaviourGap']
  })

  test('every turn of the conversations is exact, and the log-probs of all together agree with this engine', async () => {
    const turns = seen.events('TurnCaptured')
    let most = 0
    let tokens = 0
    for (const turn of turns) {
      most = Math.max(most, await apart(turn))
      tokens += turn.ids.length
    }
    Object.assign(figures, { turns: turns.length, tokens, turnsApart: most })
    assert.ok(most < TOLERANCE, String(most))
    assert.deepEqual([seen.events('TurnAborted'), seen.ignored], [[], []])
  })

  test('a second version, a rollback to the first and a version requested by its number are served', async () => {
    const second = await teach(1)
    await serves(pipeline, second)
    assert.ok((await adaptersThere()).includes(nameOf(second)))
    const begin = performance.now()
    await done(where, 'rollback', '1')
    figures['rollbackMs'] = Math.round(performance.now() - begin)
    const answer = await ask(pipeline.client, [{ role: 'user', content: question(2) }])
    assert.equal(answer.version, 1)
    assert.ok((await apart(await turnOf(answer.turn))) < TOLERANCE)
    const pinned = await ask(pipeline.client, [{ role: 'user', content: question(2) }], { model: `policy@${second}` })
    assert.equal((await turnOf(pinned.turn)).adapter, seen.line.versions.get(second)!.adapter)
    assert.equal(
      (await ask(pipeline.client, [{ role: 'user', content: question(2) }], { model: 'policy@0' })).version,
      0,
    )
  })

  test('the throughput of streams is recorded', async () => {
    const stream = async (): Promise<number> => {
      const response = await fetch(`${where.url}/v1/chat/completions`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({
          model: 'policy',
          messages: [{ role: 'user', content: 'Tell me a story.' }],
          temperature: 2,
          max_tokens: 300,
        }),
      })
      return ((await response.json()) as { usage: { completion_tokens: number } }).usage.completion_tokens
    }
    for (const streams of [1, 8]) {
      const begin = performance.now()
      const tokens = (await Promise.all(Array.from({ length: streams }, stream))).reduce((a, b) => a + b, 0)
      figures[`tokensPerSecond${streams}`] = Math.round((tokens / (performance.now() - begin)) * 1000)
    }
    figures['memoryMiB'] = vllm.memory()
  })

  const CUT = [
    [
      '/v1/chat/completions',
      { messages: [{ role: 'user', content: 'Tell me a story.' }], max_tokens: 400 },
      /"content":"[^"]/,
      /"error":[^]*data: \[DONE\]\n\n$/,
      /data: \[DONE\]\n\n$/,
    ],
    [
      '/v1/responses',
      { input: 'Tell me a story.', max_output_tokens: 400 },
      /output_text\.delta/,
      /event: response\.failed\ndata: [^\n]*\n\n$/,
      /event: response\.(completed|incomplete)\ndata: [^\n]*\n\n$/,
    ],
    [
      '/v1/messages',
      { messages: [{ role: 'user', content: 'Tell me a story.' }], max_tokens: 400 },
      /text_delta/,
      /event: error\ndata: [^\n]*\n\n$/,
      /event: message_stop\ndata: [^\n]*\n\n$/,
    ],
  ] as const

  const FAULT = /"error":\{|event: response\.failed|event: error/
  const LANES = 6

  for (const what of ['all', 'engine'] as const) {
    test(
      `kill -9 of ${what === 'all' ? 'vLLM' : 'the worker process of vLLM'} ends each answer in the form of its dialect; the gateway is not ready until vLLM is back`,
      { timeout: START_MS },
      async () => {
        const version = seen.line.head
        const cutBefore = seen.events('TurnAborted').length
        const began = CUT.map(() => Promise.withResolvers<void>())
        let killed = null as number | null
        const stream = async (
          at: number,
        ): Promise<{ path: string; text: string; status: number; begun: boolean; at: number }> => {
          const [path, body, first] = CUT[at]!
          const response = await fetch(`${where.url}${path}`, {
            method: 'POST',
            headers: { 'content-type': 'application/json' },
            body: JSON.stringify({ model: 'policy', stream: true, temperature: 2, ...body }),
          })
          let text = ''
          const decoder = new TextDecoder()
          for await (const bytes of response.body as unknown as AsyncIterable<Uint8Array>) {
            text += decoder.decode(bytes, { stream: true })
            if (first.test(text)) began[at]!.resolve()
          }
          return { path, text, status: response.status, begun: first.test(text), at: performance.now() }
        }
        // Answers are short and follow one another; the one that runs at the kill counts.
        const lanes = CUT.flatMap((_, at) =>
          Array.from({ length: LANES }, async () => {
            for (;;) {
              const one = await stream(at)
              if (killed !== null) return one
            }
          }),
        )
        await Promise.all(began.map(({ promise }) => promise))
        const cutAt = performance.now()
        killed = cutAt
        const gone = vllm.kill(what)
        const ended = await Promise.all(lanes)
        await gone
        const cutOff = ended.filter(({ begun, text }) => begun && FAULT.test(text))
        assert.ok(cutOff.length > 0, JSON.stringify(ended))
        for (const [path, , , fault, whole] of CUT) {
          for (const { text } of ended.filter((one) => one.path === path && one.begun))
            assert.match(text, FAULT.test(text) ? fault : whole)
          for (const { text, status } of ended.filter((one) => one.path === path && !one.begun && one.status !== 200))
            assert.ok(status === 503 && text.includes('engine'), text)
        }
        const cut = await seen.until('the cut turns', () => {
          const aborted = seen
            .events('TurnAborted')
            .slice(cutBefore)
            .filter(({ text }) => text.bytes.length > 0)
          return aborted.length >= cutOff.length && aborted
        })
        Object.assign(figures, {
          [`${what}CutMs`]: Math.round(Math.max(...cutOff.map(({ at }) => at)) - cutAt),
          [`${what}Cut`]: CUT.map(([path]) => cutOff.filter((one) => one.path === path).length),
          [`${what}Whole`]: ended.filter(({ begun, text }) => begun && !FAULT.test(text)).length,
          [`${what}NotBegun`]: ended.filter(({ begun }) => !begun).length,
        })
        for (const turn of cut) {
          assert.deepEqual([turn.why, turn.trainable, turn.ids.length], ['engine_failed', false, turn.logprobs.length])
          assert.ok(turn.ids.length > 0)
        }
        const held = fetch(`${where.url}/v1/chat/completions`, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify({ model: 'policy', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 8 }),
        })
        await readyThat(503)
        assert.equal((await ready()).said, 'engine lost')
        const refused = await held
        assert.deepEqual(
          [refused.status, ((await refused.json()) as { error: { code: string } }).error.code],
          [503, 'engine_lost'],
        )
        vllm = await startVllm(MODEL, Number(new URL(vllm.url).port))
        figures[`${what}BackSeconds`] = await readyThat(200)
        const answer = await ask(pipeline.client, [{ role: 'user', content: question(7) }])
        assert.equal(answer.version, version)
        assert.ok((await apart(await turnOf(answer.turn))) < TOLERANCE)
        assert.ok((await adaptersThere()).includes(nameOf(version)))
      },
    )
  }

  test('the pipeline stops with exit code 0, and no record on the log was ignored', async () => {
    assert.deepEqual(seen.ignored, [])
    assert.equal(await pipeline.stop(), 0)
    assert.deepEqual(new Set(names.keys()).size, new Set(names.values()).size)
  })
}
