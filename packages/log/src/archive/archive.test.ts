/** Tests of archives in a folder: their content, interrupted runs, and archives that are damaged or made up. */
import { InstarError } from '@instar/events/errors'
import { TOPICS, type Topic } from '@instar/events/flow'
import avro from 'avsc'
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { deflateRawSync } from 'node:zlib'
import { all, note, NOTE, range, SCHEMAS } from '../../../../test/kit/event-log/harness.ts'
import { killAt, linesOf, startScript } from '../../../../test/kit/event-log/scripts.ts'
import {
  Archive,
  copyLog,
  openEmbeddedLog,
  openFolderStore,
  openMemoryLog,
  writeArchive,
  type EmbeddedLog,
  type EventLog,
} from '../index.ts'
import { NotAnObject, ObjectWriter, readObject } from './container.ts'
import { manifestText, objectName, sha256, type Manifest } from './manifest.ts'

const root = mkdtempSync(join(tmpdir(), 'instar-archive-'))
after(() => rmSync(root, { recursive: true, force: true }))
const folder = (): string => mkdtempSync(join(root, 'x-'))

const SIZES = { object: 4096, manifest: 32 << 10 }
const TEXT = 'x'.repeat(200)

/** Appends `count` records to each topic, of 40 keys, with times that are not in order; each tenth is large. */
const fill = async (log: EventLog, count: number, start = 0): Promise<void> => {
  for (const topic of TOPICS)
    await log.append(
      range(count).map((i) =>
        note(
          `k${((start + i) * 7) % 40}`,
          `${topic} ${start + i} ${(start + i) % 10 ? TEXT : randomBytes(700).toString('hex')}`,
          {
            topic,
            timestamp: 1000 + (((start + i) * 37) % 500),
          },
        ),
      ),
    )
}

const archived = async (log: EmbeddedLog, place: string, options: object = {}) => {
  const to = openFolderStore(place, true)
  try {
    return await writeArchive({ from: log, schemas: () => log.schemas(), to, sizes: SIZES, now: () => 5, ...options })
  } finally {
    await to.close()
  }
}

const opened = (place: string, digest?: string) => Archive.open(openFolderStore(place, false), digest ? { digest } : {})

/** Restores into a new embedded log, which the caller closes. */
const restored = async (place: string, into = folder()): Promise<EmbeddedLog> => {
  const archive = await opened(place)
  const log = await openEmbeddedLog({ folder: into, schemas: archive.schemas() })
  try {
    assert.equal((await copyLog({ from: archive, to: log })).equal, true)
  } catch (error) {
    await log.close()
    throw error
  }
  return log
}

/** Everything that a log's reader can see. */
const content = async (log: Pick<EventLog, 'read'>): Promise<unknown> =>
  Promise.all(
    TOPICS.map(async (topic) =>
      (await all(log.read(topic)))
        .toSorted((a, b) => a.offset - b.offset)
        .map(({ topic, partition, offset, key, schema, timestamp, payload }) =>
          [topic, partition, offset, key, schema, timestamp, Buffer.from(payload).toString('hex')].join(' '),
        ),
    ),
  )

const code =
  (expected: string, message: RegExp) =>
  (error: unknown): boolean => {
    assert.ok(error instanceof InstarError && error.code === expected, String(error))
    assert.match(error.message, message)
    return true
  }

const largest = (partitions: Manifest['topics'][Topic]) =>
  partitions.toSorted((a, b) => b.objects.length - a.objects.length)[0]!
const manifestOf = (place: string): Manifest => {
  const { checksum: _, ...manifest } = JSON.parse(readFileSync(join(place, 'manifest.json'), 'utf8')) as Manifest & {
    checksum: string
  }
  return manifest
}
const writeManifest = (place: string, manifest: Manifest): void =>
  writeFileSync(join(place, 'manifest.json'), manifestText(manifest))
const objectsOf = (place: string): string[] =>
  readdirSync(join(place, 'objects'), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name))
    .toSorted()

describe('an archive', () => {
  test('is restored with every byte, key, time and offset, and grows by what is new', async () => {
    const log = await openEmbeddedLog({ folder: folder(), schemas: SCHEMAS })
    const place = join(folder(), 'archive')
    await fill(log, 300)
    const first = await archived(log, place)
    assert.deepEqual([first.added.records, first.topics.turns.records], [300 * TOPICS.length, 300])
    const before = objectsOf(place).map((path) => [path, statSync(path).mtimeMs])
    const restoredFirst = await restored(place)
    assert.deepEqual(await content(restoredFirst), await content(log))
    assert.deepEqual(restoredFirst.schemas(), log.schemas())
    await restoredFirst.close()

    assert.deepEqual((await archived(log, place)).added, { records: 0, objects: 0, bytes: 0, damaged: 0 })
    await fill(log, 50, 300)
    const second = await archived(log, place)
    assert.equal(second.added.records, 50 * TOPICS.length)
    assert.notEqual(second.manifest, first.manifest)
    const now = new Map(objectsOf(place).map((path) => [path, statSync(path).mtimeMs]))
    for (const [path, written] of before) assert.equal(now.get(String(path)), written)
    const again = await restored(place)
    assert.deepEqual(await content(again), await content(log))
    await Promise.all([again.close(), log.close()])
  })

  test('ends at the positions that are asked for, and is complete there', async () => {
    const log = await openEmbeddedLog({ folder: folder(), schemas: SCHEMAS })
    const place = folder()
    await fill(log, 100)
    const until = await log.ends(TOPICS)
    await fill(log, 100, 100)
    const { topics } = await archived(log, place, { until })
    assert.deepEqual(topics.turns.ends, until.turns)
    const half = await restored(place)
    assert.equal((await all(half.read('turns'))).length, 100)
    await Promise.all([half.close(), log.close()])
  })

  test('has objects and folders that only their owner may read, of bounded size', async () => {
    const log = await openEmbeddedLog({ folder: folder(), schemas: SCHEMAS })
    const place = join(folder(), 'archive')
    await fill(log, 300)
    const { topics } = await archived(log, place)
    assert.ok(topics.turns.objects > 8, `${topics.turns.objects} objects`)
    for (const path of [...objectsOf(place), join(place, 'manifest.json')]) {
      assert.equal(statSync(path).mode & 0o777, 0o600)
      if (!path.endsWith('.json')) assert.ok(statSync(path).size < 2 * SIZES.object)
    }
    for (const path of [place, join(place, 'objects'), join(place, 'objects', 'turns', '0')])
      assert.equal(statSync(path).mode & 0o777, 0o700)
    await log.close()
  })

  test('is read by any Avro library', async () => {
    const log = await openEmbeddedLog({ folder: folder(), schemas: SCHEMAS, partitions: { turns: 1, blobs: 1 } })
    const place = folder()
    await fill(log, 120)
    await archived(log, place)
    for (const topic of ['turns', 'blobs'] as const) {
      const paths = objectsOf(place).filter((path) => path.includes(`/${topic}/`))
      const found: number[] = []
      for (const path of paths)
        for await (const record of avro.createFileDecoder(path) as AsyncIterable<{ offset: number }>)
          found.push(record.offset)
      assert.deepEqual(found, range(120))
    }
    await log.close()
  })

  test('of another log is refused, and stays as it is', async () => {
    const [log, other] = await Promise.all([1, 2].map(() => openEmbeddedLog({ folder: folder(), schemas: SCHEMAS })))
    const place = folder()
    await fill(log!, 20)
    await fill(other!, 20, 1000)
    await archived(log!, place)
    const before = readFileSync(join(place, 'manifest.json'))
    await assert.rejects(
      archived(other!, place),
      code('archive_differs', /archive of another log: the record at turns/),
    )
    const empty = await openEmbeddedLog({ folder: folder(), schemas: SCHEMAS })
    await assert.rejects(archived(empty, place), code('archive_differs', /is archived up to \d+, the log ends at 0/))
    const others = openMemoryLog({ partitions: { turns: 3 } })
    await assert.rejects(
      writeArchive({ from: others, schemas: () => ({}), to: openFolderStore(place, true) }),
      code('archive_differs', /turns has 8 partitions in the archive, 3 on the log/),
    )
    assert.deepEqual(readFileSync(join(place, 'manifest.json')), before)
    await Promise.all([log, other, empty].map((each) => each!.close()))
  })

  test('is written by one process at a time', async () => {
    const place = folder()
    const store = openFolderStore(place, true)
    const log = await openEmbeddedLog({ folder: folder(), schemas: SCHEMAS })
    await assert.rejects(archived(log, place), code('data_in_use', /open for writing/))
    await store.close()
    await log.close()
  })
})

test(
  'an archiver that is killed five times leaves true archives, and is completed by the next',
  { timeout: 90_000 },
  async () => {
    const [from, place] = [folder(), folder()]
    const log = await openEmbeddedLog({ folder: from, schemas: SCHEMAS })
    await fill(log, 9000)
    const start = () => startScript('archiver', from, place)
    const counts: number[] = []
    for (const step of [
      /^blobs\/0\.[5-9]/,
      /^turns\/0\.[4-9]/,
      /^turns\/0\.[6-9]/,
      /^scores\/0\.[3-9]/,
      /^weights\/0\.[5-9]/,
    ]) {
      await killAt(start(), step)
      const check = await opened(place).then(
        (archive) => archive.check({ onProgress: () => undefined }),
        () => undefined,
      )
      if (!check) continue
      assert.deepEqual([check.problems, check.complete], [[], false])
      counts.push(TOPICS.reduce((sum, topic) => sum + check.topics[topic].records, 0))
    }
    assert.ok(counts.length > 1 && counts.at(-1)! > counts[0]!, `archived after each kill: ${counts.join(', ')}`)
    const lines = await linesOf(start())
    const added = JSON.parse(lines.at(-1)!.slice(5)) as { records: number }
    assert.equal(added.records, 9000 * TOPICS.length - counts.at(-1)!)
    const back = await restored(place)
    assert.deepEqual(await content(back), await content(log))
    await Promise.all([back.close(), log.close()])
  },
)

describe('a damaged archive', () => {
  let good: string
  let log: EmbeddedLog
  before(async () => {
    good = folder()
    log = await openEmbeddedLog({ folder: folder(), schemas: SCHEMAS })
    await fill(log, 200)
    await archived(log, good)
  })
  after(() => log.close())

  const copyOf = (): string => {
    const place = folder()
    cpSync(good, place, { recursive: true })
    return place
  }

  const damages: [string, (path: string) => void, RegExp][] = [
    ['missing', (path) => rmSync(path), /it is missing/],
    ['truncated', (path) => truncateSync(path, 100), /it is truncated: 100 of \d+ bytes/],
    ['longer', (path) => writeFileSync(path, Buffer.concat([readFileSync(path), Buffer.from('x')])), /more than/],
    [
      'changed in one bit',
      (path) => {
        const bytes = readFileSync(path)
        bytes[bytes.length >> 1]! ^= 1
        writeFileSync(path, bytes)
      },
      /does not match its sha256/,
    ],
  ]
  for (const [name, damage, message] of damages) {
    test(`an object that is ${name} is named; what was restored stays, and a repaired archive completes it`, async () => {
      const place = copyOf()
      const path = objectsOf(place)
        .filter((each) => each.includes('/turns/'))
        .at(-1)!
      const bytes = readFileSync(path)
      damage(path)
      const into = folder()
      await assert.rejects(restored(place, into), code('archive_damaged', message))
      await assert.rejects(restored(place, into), code('archive_damaged', new RegExp(path.slice(place.length + 1))))
      const check = await (await opened(place)).check({ onProgress: () => undefined })
      assert.deepEqual(
        check.problems.map(({ object }) => object),
        [path.slice(place.length + 1)],
      )
      assert.match(check.problems[0]!.what, message)
      writeFileSync(path, bytes)
      const whole = await restored(place, into)
      assert.deepEqual(await content(whole), await content(log))
      await whole.close()
    })
  }

  test('no manifest, one that was cut off, and one with another digest are refused', async () => {
    const place = copyOf()
    const digest = sha256(readFileSync(join(place, 'manifest.json')))
    await opened(place, digest)
    await assert.rejects(opened(place, '0'.repeat(64)), code('archive_damaged', /its sha256 is/))
    truncateSync(join(place, 'manifest.json'), 1000)
    await assert.rejects(opened(place), code('archive_damaged', /manifest.json: it is not JSON/))
    await assert.rejects(archived(log, place), code('archive_damaged', /manifest.json: it is not JSON/))
    rmSync(join(place, 'manifest.json'))
    await assert.rejects(opened(place), code('archive_damaged', /there is no archive/))
  })

  test('a FIFO or a folder in the place of the manifest or an object is refused, and nothing waits for it', async () => {
    const place = copyOf()
    const [object] = objectsOf(place)
    rmSync(object!)
    execFileSync('mkfifo', [object!])
    const { problems } = await (await opened(place)).check({ onProgress: () => undefined })
    assert.deepEqual(
      problems.map(({ what }) => what),
      ['it is no regular file'],
    )
    const manifest = join(place, 'manifest.json')
    for (const make of [() => execFileSync('mkfifo', [manifest]), () => mkdirSync(manifest)]) {
      rmSync(manifest, { recursive: true })
      make()
      await assert.rejects(opened(place), code('archive_damaged', /manifest.json: it is no regular file/))
    }
  })

  test('a manifest of which any bit is another is refused, also that of the last record', async () => {
    const place = copyOf()
    const file = join(place, 'manifest.json')
    const bytes = readFileSync(file)
    const last = bytes.indexOf(largest(manifestOf(place).topics.turns).lastRecord!)
    for (const at of [last, ...range(60).map((i) => Math.floor((i * bytes.length) / 60))]) {
      const changed = Buffer.from(bytes)
      changed[at]! ^= 1
      writeFileSync(file, changed)
      await assert.rejects(opened(place), code('archive_damaged', /manifest.json: it /))
    }
    // A space is no other value.
    writeFileSync(file, JSON.stringify(JSON.parse(bytes.toString()), null, 2))
    await opened(place)
  })

  test('one that a build of version 1 wrote is read, restored and continued, and then has version 2', async () => {
    const place = copyOf()
    const manifest = manifestOf(place)
    for (const { objects } of Object.values(manifest.topics).flat()) for (const one of objects) delete one.times
    const text = `${JSON.stringify({ ...manifest, version: 1 })}\n`
    writeFileSync(join(place, 'manifest.json'), text)
    const whole = await restored(place)
    assert.deepEqual(await content(whole), await content(log))
    assert.deepEqual((await archived(whole, place)).added, { records: 0, objects: 0, bytes: 0, damaged: 0 })
    assert.equal(readFileSync(join(place, 'manifest.json'), 'utf8'), text, 'nothing was added')
    await fill(whole, 30, 300)
    const { manifest: digest } = await archived(whole, place)
    await opened(place, digest)
    const { version, topics } = manifestOf(place)
    const { objects } = largest(topics.turns)
    assert.deepEqual([version, objects[0]!.times, typeof objects.at(-1)!.times?.[1]], [2, undefined, 'number'])
    await whole.close()
  })

  test('a manifest with gaps, unknown fields, paths, or sizes beyond the limits is refused before anything is read', async () => {
    const cases: [(manifest: Manifest) => void, RegExp][] = [
      [({ topics }) => largest(topics.blobs).objects.splice(0, 1), /blobs \d: offsets 0 to \d+ are in no object/],
      [
        ({ topics }) => (largest(topics.blobs).objects.pop(), 0),
        /blobs: \d+ records are archived or damaged, and their offsets end at/,
      ],
      [({ topics }) => (topics.scores[0]!.objects[0]!.bytes = 1e12), /topics.scores.0.objects.0.bytes/],
      [({ topics }) => (topics.scores[0]!.objects[0]!.sha256 = '../../etc/passwd'), /topics.scores.0.objects.0.sha256/],
      [({ topics }) => (topics.scores[0]!.objects[0]!.from = -1), /topics.scores.0.objects.0.from/],
      [({ topics }) => (topics.scores[0]!.objects[0]!.records = 1e9), /do not fit together/],
      [(manifest) => Object.assign(manifest, { path: '/etc' }), /path/],
      [(manifest) => Object.assign(manifest.topics, { '../x': [] }), /topics/],
      [
        (manifest) => Object.assign(manifest, { version: 3 }),
        /it has version 3, and this build reads versions 1 and 2/,
      ],
      // What another build wrote under the number of version 1.
      [(manifest) => Object.assign(manifest, { version: 1 }), /topics.turns.0.objects.0: Unrecognized key/],
      [({ topics }) => (topics.scores[0]!.objects[0]!.times = [2, 1]), /scores 0: the times of the object at 0/],
      [({ schemas }) => (schemas[0]!.avro = '"string"'), /does not have its sha256/],
      [({ topics }) => (topics.turns = Array.from({ length: 5000 }, () => topics.turns[0]!)), /topics.turns/],
    ]
    for (const [change, message] of cases) {
      const place = copyOf()
      const manifest = manifestOf(place)
      change(manifest)
      writeManifest(place, manifest)
      await assert.rejects(opened(place), code('archive_damaged', message))
    }
  })

  test('an object that fits its digest and not its place is refused', async () => {
    const make = (records: [offset: number, key: string, schema?: string][]): Buffer => {
      const writer = new ObjectWriter('deflate', SIZES.object)
      for (const [offset, key, schema = NOTE] of records)
        writer.add({ offset, key, schema, timestamp: 1, payload: Buffer.from('a') })
      return writer.finish()
    }
    const topic: Topic = 'upgrades'
    const entry = manifestOf(good).topics[topic][0]!.objects[0]!
    const offsets = range(entry.records).map((i) => entry.first + i)
    const cases: [Buffer, RegExp, times?: [number, number]][] = [
      [make(offsets.map((offset) => [offset, 'k'])), /the record 0 has a time outside those of the manifest/, [2, 3]],
      [make(offsets.slice(1).map((offset) => [offset, 'k'])), /a record of offset 1/],
      [make(offsets.slice(0, -1).map((offset) => [offset, 'k'])), /records up to/],
      [make(offsets.map((offset) => [offset, 'k', 'Other.v1'])), /a schema that the manifest lacks/],
      [make([...offsets, entry.last].map((offset) => [offset, 'k'])), /which is not its place/],
    ]
    for (const [bytes, message, times = [1, 1]] of cases) {
      const place = copyOf()
      const manifest = manifestOf(place)
      const changed = manifest.topics[topic][0]!.objects[0]!
      Object.assign(changed, { bytes: bytes.length, sha256: sha256(bytes), times })
      writeFileSync(join(place, objectName(topic, 0, changed)), bytes)
      writeManifest(place, manifest)
      await assert.rejects(restored(place), code('archive_damaged', message))
    }
  })
})

describe('an object', () => {
  const record = (i: number) => ({ offset: i, timestamp: i, schema: NOTE, key: `k${i}`, payload: Buffer.from(TEXT) })
  const object = (): Buffer => {
    const writer = new ObjectWriter('deflate', 1 << 20)
    for (const i of range(200)) writer.add(record(i))
    return writer.finish()
  }

  test('that expands beyond 64 MiB is refused before it has', () => {
    const writer = new ObjectWriter('deflate', 1 << 20)
    writer.add(record(0))
    const whole = writer.finish()
    const long = avro.Type.forSchema('long')
    const bomb = deflateRawSync(Buffer.alloc(65 << 20), { level: 9 })
    const sync = whole.subarray(-16)
    const header = whole.subarray(0, whole.indexOf(sync) + 16)
    const bytes = Buffer.concat([header, long.toBuffer(1), long.toBuffer(bomb.length), bomb, sync])
    assert.ok(bytes.length < 80_000)
    assert.throws(
      () => [...readObject(bytes)],
      (error: unknown) => error instanceof NotAnObject && /is larger than 67108864 bytes/.test(error.message),
    )
  })

  test('with any byte changed gives records or NotAnObject, and nothing else', () => {
    const bytes = object()
    let refused = 0
    for (let i = 0; i < bytes.length; i++) {
      for (const value of [bytes[i]! ^ 0xff, bytes[i]! ^ 1, 0x80]) {
        const copy = Buffer.from(bytes)
        copy[i] = value
        try {
          for (const page of readObject(copy))
            for (const { payload } of page) assert.ok(payload.length <= copy.length * 100)
        } catch (error) {
          assert.ok(error instanceof NotAnObject, String(error))
          refused++
        }
      }
    }
    assert.ok(refused > bytes.length)
    for (let length = 1; length < bytes.length; length += 7)
      assert.throws(
        () => {
          assert.ok([...readObject(bytes.subarray(0, length))].length < 200)
          throw new NotAnObject('a block ends there')
        },
        (error: unknown) => error instanceof NotAnObject,
      )
  })
})
