/**
 * `npm run nightly:tinker`: a real SkyRL (JAX, CPU) trains, a real vLLM (CPU) serves, `instar up` in between: versions,
 * servers killed and started again, vLLM also while the gate measures, a rollback, `verify`. Needs Linux, Python 3.12, 20 GB of disk, 8 GB of memory, with
 * SmolLM2-135M 12 GB; the first run fetches 6 GB. Prints the figures; exit code 0 if all tests pass. `-- embedded`: answers
 * by the embedded engine instead of vLLM. `-- vllm smollm2`: SmolLM2-135M instead of the model that ships. `-- vllm tiny kafka`: a process for each
 * service on Kafka, a schema registry and PostgreSQL instead of `instar up`.
 */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { ask, question, sessions } from '../../kit/people.ts'
import { BATCH } from '../../flow/witness.ts'
import { MODEL } from '../trials.ts'
import { candidatesAt, measuring } from './measuring.ts'
import { onEmbeddedLog, onKafka, type Pipeline } from './pipelines.ts'
import { startVllm, type Vllm } from './server.ts'
import { startSkyrl, type Skyrl } from './skyrl.ts'
import { smolLM2 } from './smollm2.ts'

for (const [name, number] of [
  ['SIGINT', 2],
  ['SIGTERM', 15],
] as const)
  process.once(name, () => process.exit(128 + number))

const [, , engine = 'vllm', size = 'tiny', place = 'embedded'] = process.argv
const model = size === 'smollm2' ? await smolLM2() : MODEL
const WAIT_MS = 45 * 60_000
/** Batches that the gate may reject before one is accepted. */
const PATIENCE = 6
const SAMPLE_MS = 5000
/** Slots for models; rows of a pass at once, fewer where a row takes much memory. */
const ROOM = { adapters: 6, rows: size === 'smollm2' ? 4 : 0 }

describe('the whole loop with a training server', () => {
  const start = place === 'kafka' ? onKafka : onEmbeddedLog()
  /** Of SkyRL. Not the pipeline's folder, which must be free of processes when that has stopped. */
  const folder = mkdtempSync(join(tmpdir(), 'instar-skyrl-'))
  const figures: Record<string, unknown> = { engine, model: size, log: place }
  let skyrl: Skyrl
  let vllm: Vllm | null = null
  let pipeline: Pipeline
  let seen: Pipeline['seen']
  let talks = 0
  /** The turns of all conversations. */
  const asked: string[] = []
  /** The most memory of each server's processes, MiB; looked at every `SAMPLE_MS`. */
  const peak = { skyrl: 0, vllm: 0 }
  const sampling = setInterval(() => {
    peak.skyrl = Math.max(peak.skyrl, skyrl?.memory() ?? 0)
    peak.vllm = Math.max(peak.vllm, vllm?.memory() ?? 0)
  }, SAMPLE_MS)

  const until = async (what: string, found: () => boolean): Promise<number> => {
    const begin = performance.now()
    while (!found()) {
      assert.ok(performance.now() - begin < WAIT_MS, `${what}; ${seen.summary()}; ${pipeline.said()}`)
      await pause(200)
    }
    return Math.round((performance.now() - begin) / 1000)
  }
  /** Resolves when the gateway serves this version. */
  const serves = async (version: number): Promise<void> => {
    const begin = performance.now()
    const served = async (): Promise<unknown> =>
      ((await (await fetch(`${pipeline.url}/health/ready`)).json()) as { version: unknown }).version
    while ((await served()) !== version) {
      assert.ok(performance.now() - begin < WAIT_MS, `version ${version} is not served`)
      await pause(100)
    }
  }
  const newest = (): number => Math.max(0, ...seen.line.versions.keys())
  const talk = async (): Promise<void> => {
    const held = await sessions(pipeline.client, talks, BATCH)
    asked.push(...held.flatMap(({ first, second }) => [first.turn, second.turn]))
    talks += BATCH
  }
  /** Conversations until an update waits for its verdict; its id. */
  const undecided = async (): Promise<string> => {
    const waiting = () => seen.chain.batches.find((batch) => batch.update && !seen.isSettled(batch))
    for (let wave = 0; wave < PATIENCE; wave += 1) {
      await talk()
      await seen.caughtUp()
      await until('an update', () => waiting() !== undefined || seen.settled())
      const id = waiting()?.update?.id
      if (id !== undefined) return id
    }
    throw new Error(`no update was seen before its verdict: ${seen.summary()}`)
  }
  /** Conversations until a version above `behind` is published. */
  const teach = async (behind: number): Promise<number> => {
    for (let wave = 0; wave < PATIENCE; wave += 1) {
      await talk()
      // Without it the last turns may not have been read, and what was read is settled: another wave would be another batch.
      await seen.caughtUp()
      await until('everything to be learned from', () => seen.settled())
      if (newest() > behind) return newest()
    }
    throw new Error(`the gate rejected ${PATIENCE} batches: ${seen.summary()}`)
  }
  const answers = async (): Promise<void> => {
    const begin = performance.now()
    while (
      vllm &&
      !(await fetch(`${vllm.url}/version`).then(
        ({ ok }) => ok,
        () => false,
      ))
    ) {
      assert.ok(performance.now() - begin < WAIT_MS)
      await Promise.race([pause(500), vllm.ended])
    }
  }
  before(
    async () => {
      skyrl = await startSkyrl({ model, folder, ...ROOM })
      if (engine === 'vllm') vllm = await startVllm(model)
      await skyrl.ready()
      await answers()
      pipeline = await start({
        // One folder for gateway, publisher and vLLM.
        INSTAR_ADAPTERS: join(folder, 'adapters'),
        INSTAR_TRAINER: `tinker+${skyrl.url}`,
        INSTAR_MODEL: model,
        ...(vllm ? { INSTAR_ENGINE: `vllm+${vllm.url}/v1` } : {}),
      })
      seen = pipeline.seen
    },
    { timeout: WAIT_MS },
  )

  after(async () => {
    clearInterval(sampling)
    await pipeline?.end()
    figures['skyrlMiB'] = skyrl?.memory()
    figures['vllmMiB'] = vllm?.memory() ?? null
    figures['peakMiB'] = peak
    await vllm?.stop()
    await skyrl?.stop()
    rmSync(folder, { recursive: true, force: true })
    process.stdout.write(`${JSON.stringify({ tinker: figures })}\n`)
  })

  test('conversations become a version that the training server computed and the engine serves', async () => {
    const begin = performance.now()
    const version = await teach(0)
    await serves(version)
    figures['firstVersionSeconds'] = Math.round((performance.now() - begin) / 1000)
    const computed = seen.events('UpdateComputed').at(-1)!
    assert.ok(computed.remote, 'computed on the server')
    figures['figures'] = computed.figures
    const [bound] = seen.events('TrainerBound')
    figures['server'] = bound!.capabilities
    assert.equal((await ask(pipeline.client, [{ role: 'user', content: question(1) }])).version, version)
  })

  test('SkyRL is killed during an update and started again: the update is computed in a new model', async () => {
    const before = newest()
    const bounds = seen.events('TrainerBound').length
    const requested = seen.events('UpdateRequested').length
    const teaching = teach(before)
    await until('a requested update', () => seen.events('UpdateRequested').length > requested)
    await skyrl.kill()
    const port = Number(new URL(skyrl.url).port)
    const begin = performance.now()
    skyrl = await startSkyrl({ model, folder, ...ROOM, port })
    await skyrl.ready()
    figures['skyrlBackSeconds'] = Math.round((performance.now() - begin) / 1000)
    const version = await teaching
    await serves(version)
    assert.ok(seen.events('TrainerBound').length > bounds)
  })

  test('the trainer is killed during an update: it is published once', { skip: place !== 'kafka' }, async () => {
    const before = newest()
    const requested = seen.events('UpdateRequested').length
    const teaching = teach(before)
    await until('a requested update', () => seen.events('UpdateRequested').length > requested)
    const begin = performance.now()
    await pipeline.killTrainer!()
    figures['trainerBackSeconds'] = Math.round((performance.now() - begin) / 1000)
    const version = await teaching
    await serves(version)
    const published = seen.events('VersionPublished').map(({ update }) => update)
    assert.equal(new Set(published).size, published.length)
  })

  test('vLLM is killed and started again: the head is served', { skip: engine !== 'vllm' }, async () => {
    const version = newest()
    const port = Number(new URL(vllm!.url).port)
    const begin = performance.now()
    await vllm!.kill()
    vllm = await startVllm(model, port)
    await answers()
    await serves(version)
    figures['vllmBackSeconds'] = Math.round((performance.now() - begin) / 1000)
    assert.equal((await ask(pipeline.client, [{ role: 'user', content: question(3) }])).version, version)
  })

  test(
    'vLLM is killed while the gate measures: once it is back, the candidate is measured and decided, once',
    { skip: engine !== 'vllm' },
    async () => {
      const update = await undecided()
      const requests = await measuring(vllm!.url, WAIT_MS)
      const begin = performance.now()
      const since = (): number => Math.round((performance.now() - begin) / 1000)
      await vllm!.kill()
      vllm = await startVllm(model, Number(new URL(vllm!.url).port))
      await answers()
      const back = since()
      await seen.caughtUp()
      assert.equal(seen.line.verdicts.has(update), false, 'not decided without the engine')
      await until('the verdict', () => seen.line.verdicts.has(update))
      const verdict = since()
      await until('everything to be learned from', () => seen.settled())
      await serves(newest())
      const [published, rejected] = [seen.events('VersionPublished'), seen.events('VersionRejected')]
      const own = published.filter((one) => one.update === update)
      figures['gateKill'] = { requests, back, verdict, served: since(), published: own.length }
      assert.equal(own.length + rejected.filter((one) => one.update === update).length, 1)
      assert.equal(seen.line.versions.size, 1 + published.length)
      const computed = seen.chain.batches.flatMap((batch) => (batch.update ? [batch.update.id] : []))
      assert.equal(seen.events('UpdateComputed').length, computed.length)
      assert.deepEqual([...published, ...rejected].map((one) => one.update).toSorted(), computed.toSorted())
      const spoken = new Set(asked)
      const captured = seen.events('TurnCaptured').flatMap(({ turn }) => (spoken.has(turn) ? [turn] : []))
      assert.deepEqual(captured.toSorted(), asked.toSorted())
      assert.deepEqual([seen.events('TurnAborted'), await candidatesAt(vllm.url)], [[], []])
      assert.equal((await ask(pipeline.client, [{ role: 'user', content: question(5) }])).version, newest())
    },
  )

  test('after a rollback the next version continues from the older one', async () => {
    const head = newest()
    const first = Math.min(...[...seen.line.versions.keys()].filter((version) => version > 0))
    await pipeline.command('rollback', String(first))
    await serves(first)
    // A rollback freezes the line.
    await pipeline.command('thaw')
    const version = await teach(head)
    assert.equal(seen.line.versions.get(head + 1)!.parent, first)
    const stateOf = (number: number): string | undefined =>
      seen.chain.batches.find(({ update }) => update?.id === seen.line.versions.get(number)!.update)?.update?.event
        .remote?.statePath
    assert.ok(
      seen
        .events('TrainerBound')
        .some(({ parent, statePath }) => parent.version === first && statePath === stateOf(first)),
    )
    await serves(version)
  })

  test('verify makes the requests again from the log, and the pipeline stops with exit code 0', async () => {
    const begin = performance.now()
    const verified = await pipeline.command<{ ok: boolean }>('verify', 'all')
    figures['verify'] = { ...verified, seconds: Math.round((performance.now() - begin) / 1000) }
    assert.equal(verified.ok, true)
    const computed = seen.events('UpdateComputed')
    figures['updateSeconds'] = computed.map(({ at, startedAt }) => Math.round((at - startedAt) / 100) / 10)
    figures['gateSeconds'] = seen.events('VersionPublished').flatMap(({ update, at }) => {
      const measured = seen.chain.batches.find((batch) => batch.update?.id === update)?.update?.event
      return measured ? [Math.round((at - measured.at) / 100) / 10] : []
    })
    figures['servingDifference'] = seen.events('VersionPublished').map(({ figures: own }) => own['serving_difference'])
    figures['klParent'] = computed.map(({ figures: own }) => own.klParent)
    figures['verdicts'] = { published: seen.line.versions.size - 1, rejected: seen.line.rejected.length }
    assert.deepEqual(seen.ignored, [])
    assert.deepEqual(
      (await pipeline.stop()).filter((code) => code !== 0),
      [],
    )
  })
})
