/** Services on a log that was cut: from snapshots of before and after the cut, and from checkpoints. */
import { decodeRecord } from '@instar/events'
import {
  Archive,
  cutLog,
  isCutAway,
  openEmbeddedLog,
  openFolderStore,
  openSnapshots,
  usableCheckpoint,
  writeArchive,
  writeCheckpoint,
  type EmbeddedLog,
  type EventLog,
  type StoredFold,
} from '@instar/log'
import { schemaTexts } from '@instar/events'
import { publisherFold } from '@instar/publisher'
import { scorerFold } from '@instar/scorer'
import { auditFold, neededTurns, trainerFold } from '@instar/trainer'
import { deepEqual, equal, match, ok, rejects } from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { POLICY } from '../kit/histories.ts'
import { longHistory } from '../kit/long-history.ts'

const FOLDS = [scorerFold, trainerFold, publisherFold, auditFold]
const root = mkdtempSync(join(tmpdir(), 'instar-cut-services-'))
after(() => rmSync(root, { recursive: true, force: true }))
const OBSERVER = { onProgress: () => undefined }
const NEVER = new AbortController().signal

/** Folds what is new from the snapshot in `place` on. `from`: where it began. */
const folded = async (log: EventLog, fold: StoredFold, place: string, checkpoints?: string) => {
  const lines: string[] = []
  const snapshot = openSnapshots(place, {
    records: 500,
    ms: Infinity,
    logLine: (line) => void lines.push(line),
    ...(checkpoints ? { checkpoints } : {}),
  }).of(`${fold.service}.${POLICY}`, fold.version)
  const evolve = fold.on(snapshot, POLICY)
  try {
    const from = await snapshot.open(log, fold.topics)
    let read = 0
    for (const topic of fold.topics)
      for await (const records of log.read(topic, { from: { [topic]: from[topic] ?? {} } }))
        for (const record of records) {
          const logged = decodeRecord(record)
          evolve(logged)
          read += 1
          await snapshot.after(logged)
        }
    return { ...(await snapshot.digest()), read, lines }
  } finally {
    await snapshot.close()
  }
}

test(
  'snapshots of before a cut give way to checkpoints, those of after it go on, and the states are the same',
  { timeout: 120_000 },
  async () => {
    const [checkpoints, place] = [join(root, 'checkpoints'), join(root, 'archive')]
    const log: EmbeddedLog = await openEmbeddedLog({ folder: join(root, 'log'), schemas: schemaTexts() })
    const records = [...longHistory({ turns: 3000 })]
    const append = async (from: number, to: number): Promise<void> => {
      for (let at = from; at < to; at += 1000) await log.append(records.slice(at, Math.min(to, at + 1000)))
    }
    const parts = [0, 0.2, 0.9, 0.95, 1].map((share) => Math.floor(share * records.length))
    const written = (fold: StoredFold, folder: string) =>
      writeCheckpoint(log, fold, { policy: POLICY, folder, now: () => 1, observer: OBSERVER, signal: NEVER })
    // The start of the line alone: before the first turn and the first score.
    await append(parts[0]!, 1)
    for (const fold of FOLDS) await folded(log, fold, join(root, 'first'))
    await written(scorerFold, join(root, 'first checkpoint'))
    await append(1, parts[1]!)
    for (const fold of FOLDS) await folded(log, fold, join(root, 'early'))
    await append(parts[1]!, parts[2]!)
    for (const fold of FOLDS) await written(fold, checkpoints)
    await append(parts[2]!, parts[3]!)
    for (const fold of FOLDS) await folded(log, fold, join(root, 'late'))
    await append(parts[3]!, parts[4]!)
    const whole = new Map<StoredFold, string>()
    for (const fold of FOLDS) whole.set(fold, (await folded(log, fold, join(root, 'whole'))).digest)

    const store = openFolderStore(place, true)
    await writeArchive({ from: log, schemas: () => log.schemas(), to: store })
    await store.close()
    const usable = await Promise.all(
      FOLDS.map(async (fold) => {
        const newest = await usableCheckpoint(log, fold, { policy: POLICY, folder: checkpoints, signal: NEVER })
        return { ...newest, topics: fold.topics }
      }),
    )
    const needed = await neededTurns(log, {
      policy: POLICY,
      checkpoints,
      since: Infinity,
      unscored: [],
      observer: OBSERVER,
    })
    ok(needed.length >= 16, `${needed.length} turns are needed`)
    const { topics } = await cutLog({
      log,
      archive: await Archive.open(openFolderStore(place, false)),
      address: place,
      checkpoints: usable,
      since: Infinity,
      needed,
      deleteUnreadable: false,
      dryRun: false,
      now: () => 2,
      observer: OBSERVER,
      signal: NEVER,
    })
    ok(topics.turns.records >= 2000 && topics.scores.records >= 2000, JSON.stringify(topics))
    for (const { topic, partition, offset } of needed)
      equal((await log.at({ topic, partition, offset }))?.offset, offset)

    for (const fold of FOLDS) {
      const first = await folded(log, fold, join(root, 'first'), checkpoints)
      const early = await folded(log, fold, join(root, 'early'), checkpoints)
      for (const { lines } of [first, early])
        match(lines.join('\n'), /was cut up to \d+, and it goes on before that.*\n.*starts from the checkpoint/)
      const late = await folded(log, fold, join(root, 'late'), checkpoints)
      deepEqual(late.lines, [])
      ok(
        late.read < early.read,
        `${fold.service}: ${late.read} records after a snapshot, ${early.read} after a checkpoint`,
      )
      const none = await folded(log, fold, join(root, 'none'), checkpoints)
      for (const { digest } of [first, early, late, none]) equal(digest, whole.get(fold), fold.service)
      await rejects(folded(log, fold, join(root, 'without'), join(root, 'nothing')), isCutAway)
      for (const file of ['early', 'late', 'none']) ok((await folded(log, fold, join(root, file))).read === 0)
    }
    await rejects(usableCheckpoint(log, scorerFold, { policy: POLICY, folder: join(root, 'nothing'), signal: NEVER }), {
      code: 'no_checkpoint',
      message: /scorer.policy can be used: the one of .* is missing/,
    })
    // The older one has read nothing of what was cut.
    await rejects(
      usableCheckpoint(log, scorerFold, { policy: POLICY, folder: join(root, 'first checkpoint'), signal: NEVER }),
      { code: 'no_checkpoint' },
    )
    await log.close()
  },
)
