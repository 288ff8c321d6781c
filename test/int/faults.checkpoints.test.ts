/**
 * Checkpoints on Kafka: written beside a pipeline that runs, verified, and used by services whose folders are empty. The
 * processes are real; where a trainer begins to read is seen at its log.
 */
import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { schemaTexts, type StateCheckpointed } from '@instar/events'
import {
  checkpointsOn,
  openSnapshots,
  stateName,
  type CheckpointReport,
  type CheckpointsReport,
  type Offsets,
  type StoredFold,
} from '@instar/log'
import { gatewayFold } from '@instar/gateway/stored-fold'
import { openKafkaLog } from '@instar/log/kafka/index'
import { openModel, startLearning } from '@instar/policy'
import { publisherFold } from '@instar/publisher'
import { scorerFold } from '@instar/scorer'
import { createTrainer, trainerConfig, trainerFold, type ReplayReport, type VerifyReport } from '@instar/trainer'
import { seeded } from '../../models/tiny/recipe/random.ts'
import { ROOT } from '../../tools/tree.ts'
import { checkAnswered, checkNoCrash, checkWork } from '../chaos/world/checks.ts'
import { History } from '../chaos/world/history.ts'
import { newLedger, startPeople, type People } from '../chaos/world/people.ts'
import { startWorld, type World } from '../chaos/world/world.ts'
import type { CheckpointPlace } from './processes/checkpoint.ts'

const FOLDS: readonly StoredFold[] = [scorerFold, trainerFold, publisherFold, gatewayFold]
const NAMES = FOLDS.map((fold) => stateName(fold, 'policy'))
const TINY = join(ROOT, 'models/tiny')

const offsetsOf = ({ positions }: Pick<StateCheckpointed, 'positions'>): Offsets => {
  const offsets: Record<string, Record<number, number>> = {}
  for (const { topic, partition, next } of positions) (offsets[topic] ??= {})[partition] = next
  return offsets
}

describe('checkpoints on Kafka', { timeout: 570_000 }, () => {
  const folders: string[] = []
  const folder = (): string => {
    const path = mkdtempSync(join(tmpdir(), 'instar-int-checkpoints-'))
    folders.push(path)
    return path
  }
  const files = folder()
  const [history, ledger] = [new History(), newLedger()]
  let world: World
  let people: People | null = null

  before(async () => {
    world = await startWorld({
      services: { gateway: 1, scorer: 1, projections: 0 },
      env: { INSTAR_MODEL: TINY, INSTAR_CHECKPOINTS: files },
    })
    await history.follow(world.log)
  })
  after(async () => {
    await people?.leave().catch(() => undefined)
    await world?.end()
    for (const path of folders) rmSync(path, { recursive: true, force: true })
  })

  const talk = (): void => {
    people = startPeople({
      gateways: world.of('gateway'),
      sessions: 4,
      random: seeded(Number(process.env['INSTAR_SEED'] ?? 1)),
      ledger,
      breathMs: 500,
    })
  }
  const silence = async (): Promise<void> => {
    await people?.leave()
    people = null
  }
  const untilVersion = (number: number): Promise<void> =>
    history.until(`version ${number}`, () => history.versions.length > number)
  const jsonOf = <T>(out: string): T => JSON.parse(out.trim().split('\n').at(-1)!) as T
  const write = async (...names: string[]): Promise<CheckpointReport[]> =>
    jsonOf<{ checkpoints: CheckpointReport[] }>(await world.instar('checkpoint', ...names, '--json')).checkpoints
  const verify = async (): Promise<CheckpointsReport> => jsonOf(await world.instar('verify', '--checkpoints', '--json'))
  /** Where a fold with an empty folder begins. */
  const beginningOf = async (fold: StoredFold): Promise<Offsets> => {
    const snapshot = openSnapshots(folder(), { checkpoints: files }).of(stateName(fold, 'policy'), fold.version)
    fold.on(snapshot, 'policy')
    const from = await snapshot.open(world.log)
    await snapshot.close({ save: false })
    return from
  }

  test('checkpoints of a pipeline that runs hold, and services with empty folders go on from them to the next versions', async (t) => {
    talk()
    await untilVersion(3)
    const written = await write()
    deepEqual(
      (await write('audit')).map(({ name, written: isNew }) => [name, isNew]),
      [['audit.policy', true]],
    )
    deepEqual(
      written.map(({ name, written: isNew }) => [name, isNew]),
      NAMES.map((name) => [name, true]),
    )
    const verified = await verify()
    deepEqual(
      verified.checkpoints.map(({ name, ok: holds, file, what }) => [name, holds, file, what]),
      [...NAMES, 'audit.policy'].map((name) => [name, true, 'equal', null]),
    )
    for (const [i, fold] of FOLDS.entries()) deepEqual(await beginningOf(fold), offsetsOf(written[i]!))

    const services = (['scorer', 'trainer', 'publisher', 'gateway'] as const).flatMap((kind) => world.of(kind))
    await Promise.all(services.map((service) => service.kill(true)))
    await world.ready()
    for (const { kind, said } of services)
      match(said(20_000), new RegExp(`${kind}\\.policy(\\.turns)?: starts from the checkpoint`))
    await untilVersion(history.versions.length + 1)

    // A trainer in this process, whose reading can be watched.
    const [one] = world.of('trainer')
    equal(await one!.stop(), 0)
    const [newest] = await write('trainer')
    const log = await openKafkaLog({
      brokers: world.kafka.brokers,
      clientId: 'watched',
      registry: world.registry.url,
      schemas: schemaTexts(),
    })
    const begun: Offsets[] = []
    const early: string[] = []
    const first = offsetsOf(newest!) as Record<string, Record<number, number>>
    const subscribe = log.subscribe.bind(log)
    log.subscribe = (options) => {
      begun.push(options.from as Offsets)
      return subscribe({
        ...options,
        handle(records) {
          for (const { topic, partition, offset } of records)
            if (offset < (first[topic]?.[partition] ?? 0)) early.push(`${topic} ${partition}@${offset}`)
          return options.handle(records)
        },
      })
    }
    const learner = await startLearning({ model: TINY, engine: 'auto' })
    const trainer = createTrainer(
      {
        log,
        learner,
        snapshots: openSnapshots(folder(), { checkpoints: files }),
        model: await openModel(TINY),
        now: Date.now,
        onFatal: (error) => {
          throw error
        },
      },
      trainerConfig.parse({}),
    )
    try {
      await trainer.start()
      // It leaves `turns` at the end of the log.
      deepEqual(begun[0], first)
      deepEqual(
        begun.slice(1).map(({ turns }) => turns),
        [undefined],
      )
      await untilVersion(history.versions.length + 1)
      deepEqual(early, [])
    } finally {
      await trainer.stop()
      await learner.close()
      await log.close()
    }
    await world.add('trainer')
    await silence()
    await history.untilSettled()
    checkAnswered(ledger, history)
    checkWork(history)
    t.diagnostic(history.summary())
    equal((await verify()).ok, true)
    checkNoCrash(world)

    // Later versions are behind the audit's checkpoint.
    const report = async (...options: string[]): Promise<VerifyReport> =>
      jsonOf(await world.instar('verify', 'all', '--json', ...options))
    const [whole, from] = [await report(), await report('--from-checkpoint')]
    deepEqual([whole.ok, from.ok], [true, true])
    ok(from.trusted && from.trusted.versions >= 3 && from.batches.length >= 2, JSON.stringify(from.trusted))
    deepEqual(from.batches, whole.batches.slice(-from.batches.length))
    equal(from.batches.at(-1)!.mode, 'recompute')

    const replayed = async (branch: string, ...options: string[]): Promise<ReplayReport> =>
      jsonOf(await world.instar('replay', '--branch', branch, '--json', ...options))
    const [again, known] = [await replayed('again'), await replayed('known', '--from-checkpoint')]
    deepEqual([again.equal, known.equal, known.trusted?.record], [true, true, from.trusted.record])
    ok(again.adapter !== null && again.batches > from.batches.length)
    deepEqual([known.adapter, known.batches, known.versions], [again.adapter, again.batches, again.versions])
  })

  test('a checkpoint that is killed between its file and its record, or right after the record, leaves no false one', async () => {
    const name = 'trainer.policy'
    const program = fileURLToPath(new URL('processes/checkpoint.ts', import.meta.url))
    const known = async (): Promise<StateCheckpointed[]> =>
      (await checkpointsOn(world.log, name)).map(({ event }) => event)
    const filesOf = (): string[] => readdirSync(files).filter((file) => file.startsWith(name))
    for (const stop of ['before', 'after'] as const) {
      // Something new, so that there is a checkpoint to write.
      talk()
      await people!.more(2)
      await silence()
      await history.untilSettled()
      const [recorded, there] = [await known(), filesOf()]
      const place: CheckpointPlace = {
        brokers: world.kafka.brokers,
        registry: world.registry.url,
        folder: files,
        stop,
      }
      const child = spawn(process.execPath, [program, JSON.stringify(place)], { stdio: ['ignore', 'pipe', 'inherit'] })
      const exited = once(child, 'exit')
      const [line] = (await once(child.stdout, 'data')) as [Buffer]
      equal(String(line), 'StateCheckpointed.v1\n')
      child.kill('SIGKILL')
      await exited
      const now = await known()
      equal(now.length, recorded.length + (stop === 'after' ? 1 : 0))
      equal(filesOf().length, there.length + 1)
      equal((await verify()).ok, true)
      deepEqual(await beginningOf(trainerFold), offsetsOf(now.at(-1)!))
    }
    talk()
    await people!.more(2)
    await silence()
    await history.untilSettled()
    const [last] = await write('trainer')
    equal(last!.written, true)
    const kept = new Set((await known()).slice(-2).map(({ file }) => `${name}.${file}.state.zst`))
    // Those of the two that were killed are younger than an hour.
    deepEqual(
      [...kept].filter((file) => !filesOf().includes(file)),
      [],
    )
    ok(kept.has(`${name}.${last!.file}.state.zst`))
    equal((await verify()).ok, true)
  })
})
