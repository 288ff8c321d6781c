import { InstarError, type ErrorCode } from '@instar/events/errors'
import { openEmbeddedLog } from '../index.ts'
import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmod, cp, mkdir, mkdtemp, readdir, rm, stat, symlink, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { text } from 'node:stream/consumers'
import { describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { openEmbedded } from '../../../../test/kit/event-log/embedded.ts'
import { eventLogFeatures } from '../../../../test/kit/event-log/features.ts'
import {
  all,
  CUT_SCHEMAS,
  NOTE,
  note,
  range,
  SCHEMAS,
  textOf,
  type Opened,
} from '../../../../test/kit/event-log/harness.ts'

eventLogFeatures('embedded', openEmbedded)

const refused =
  (code: ErrorCode) =>
  (error: unknown): boolean =>
    error instanceof InstarError && error.code === code

const run = (script: string, ...rest: string[]) => [
  fileURLToPath(new URL(`../../../../test/kit/event-log/processes/${script}.ts`, import.meta.url)),
  ...rest,
]

describe('embedded log: a folder', () => {
  const feature = (title: string, body: (opened: Opened, folder: string) => Promise<void>): void => {
    test(title, { timeout: 30_000 }, async () => {
      const opened = await openEmbedded()
      try {
        await body(opened, opened.elsewhere!.place)
      } finally {
        await opened.remove()
      }
    })
  }

  feature('has one writer at a time', async ({ log }, folder) => {
    await assert.rejects(
      openEmbeddedLog({ folder }),
      (error) => refused('data_in_use')(error) && (error as Error).message.includes(`pid ${process.pid}`),
    )
    await log.append([note('k', 'still writing')])
    await log.close()
    const reopened = await openEmbeddedLog({ folder, schemas: SCHEMAS })
    await reopened.append([note('k', 'writing again')])
    await reopened.close()
  })

  const refusesProcess = async (folder: string): Promise<void> => {
    const child = spawn(
      process.execPath,
      run('writer', new URL('../../../../test/kit/event-log/embedded.ts', import.meta.url).href, folder, '0'),
      { stdio: ['pipe', 'ignore', 'pipe'] },
    )
    child.stdin.end('go\n')
    const [errors, [code]] = await Promise.all([text(child.stderr), once(child, 'exit')])
    assert.equal(code, 1)
    assert.match(errors, /code: 'data_in_use'/)
  }

  feature('refuses a second writing process', (_, folder) => refusesProcess(folder))

  feature('keeps its lock after another attempt of this process to open it', async ({ log }, folder) => {
    await assert.rejects(openEmbeddedLog({ folder }), refused('data_in_use'))
    await refusesProcess(folder)
    await log.append([note('k', 'still the only writer')])
  })

  feature('can be read, and not written, by a reader beside the writer', async ({ log }, folder) => {
    await log.append([note('k', 'one')])
    const reader = await openEmbeddedLog({ folder, readOnly: true })
    assert.deepEqual((await all(reader.read('turns'))).map(textOf), ['one'])
    await assert.rejects(reader.append([note('k', 'two')]), refused('log_read_only'))
    const subscription = await reader.subscribe({ topics: ['turns'], group: 'g', from: 'start', handle: () => {} })
    await assert.rejects(subscription.commit([{ topic: 'turns', partition: 0, offset: 0 }]), refused('log_read_only'))
    await log.append([note('k', 'two')])
    await subscription.caughtUp()
    assert.deepEqual((await all(reader.read('turns'))).map(textOf), ['one', 'two'])
    await reader.close()
  })

  feature('can be read without a writer', async ({ log }, folder) => {
    await log.append([note('k', 'one')])
    await log.close()
    const reader = await openEmbeddedLog({ folder, readOnly: true })
    assert.deepEqual((await all(reader.read('turns'))).map(textOf), ['one'])
    assert.equal(reader.partitions('turns'), 8)
    await reader.close()
  })

  feature('stores its schemas; new ones are added, changed ones refused', async ({ log }, folder) => {
    await assert.rejects(log.append([{ ...note('k', 'x'), schema: 'Other.v1' }]), refused('bad_record'))
    const reader = await openEmbeddedLog({ folder, readOnly: true })
    await log.close()
    await assert.rejects(openEmbeddedLog({ folder, schemas: { [NOTE]: '"string"' } }), refused('schema_changed'))
    const more = await openEmbeddedLog({
      folder,
      schemas: { [NOTE]: ` ${SCHEMAS[NOTE]} `, 'Other.v1': '{"type": "array", "items": "long"}' },
    })
    await more.append([{ ...note('k', 'x'), schema: 'Other.v1' }])
    assert.deepEqual(
      (await all(reader.read('turns'))).map(({ schema }) => schema),
      ['Other.v1'],
    )
    assert.deepEqual(reader.schemas(), { ...CUT_SCHEMAS, 'Other.v1': '{"type":"array","items":"long"}' })
    await reader.close()
    await more.close()
  })

  feature('keeps its write-ahead log below 32 MiB while readers follow', async ({ log }, folder) => {
    const reader = await openEmbeddedLog({ folder, readOnly: true })
    let handled = 0
    const count = (records: readonly unknown[]): void => {
      handled += records.length
    }
    const here = await log.subscribe({ topics: ['turns'], group: 'here', from: 'start', handle: count })
    const there = await reader.subscribe({ topics: ['turns'], group: 'there', from: 'start', handle: count })
    const filler = 'x'.repeat(64 << 10)
    let largest = 0
    await Promise.all(
      range(4).map(async (caller) => {
        for (const _ of range(200)) {
          await log.append([note(`k${caller}`, filler)])
          largest = Math.max(largest, (await stat(join(folder, 'log.db-wal'))).size)
        }
      }),
    )
    await Promise.all([here.caughtUp(), there.caughtUp()])
    assert.equal(handled, 2 * 800)
    assert.ok(largest < 32 << 20, `50 MiB were appended, the write-ahead file grew to ${largest} bytes`)
    await reader.close()
  })
})

test('a folder without a log, or with a file of another format, throws data_unreadable', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'instar-log-'))
  try {
    await assert.rejects(openEmbeddedLog({ folder, readOnly: true }), refused('data_unreadable'))
    await writeFile(join(folder, 'log.db'), 'this is not a database, whatever its name says '.repeat(100))
    await assert.rejects(openEmbeddedLog({ folder, readOnly: true }), refused('data_unreadable'))
    await assert.rejects(openEmbeddedLog({ folder }), refused('data_unreadable'))
  } finally {
    await rm(folder, { recursive: true })
  }
})

for (const [what, damage] of [
  ['is empty', (file: string) => truncate(file, 0)],
  ['is gone', (file: string) => rm(file)],
  // What a copy of log.db alone has while everything is in the write-ahead log.
  [
    'has no tables',
    async (file: string) => {
      await rm(file)
      const db = new DatabaseSync(file)
      db.exec('PRAGMA journal_mode = WAL')
      db.close()
    },
  ],
] as const)
  test(`a log whose file ${what} is not taken for a new one, and its write-ahead log stays`, async () => {
    const folder = await mkdtemp(join(tmpdir(), 'instar-log-'))
    try {
      const live = join(folder, 'live')
      const log = await openEmbeddedLog({ folder: live, schemas: SCHEMAS })
      await log.append([note('a', 'one')])
      // Both files, as a killed process leaves them.
      await cp(live, join(folder, 'killed'), { recursive: true })
      await log.close()
      for (const name of ['live', 'killed']) {
        const place = join(folder, name)
        await damage(join(place, 'log.db'))
        const before = await readdir(place)
        await assert.rejects(openEmbeddedLog({ folder: place, schemas: SCHEMAS }), refused('data_unreadable'))
        await assert.rejects(openEmbeddedLog({ folder: place, readOnly: true }), refused('data_unreadable'))
        if (what !== 'has no tables') assert.deepEqual(await readdir(place), before)
        if (name === 'killed' && what !== 'has no tables')
          assert.ok((await stat(join(place, 'log.db-wal'))).size > 4096)
      }
    } finally {
      await rm(folder, { recursive: true })
    }
  })

test('a folder that cannot be marked is opened, and an earlier one is marked by its next opening', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'instar-log-'))
  const marker = join(folder, 'log.made')
  try {
    // A link whose target cannot be created stands for a full disk.
    await symlink(join(folder, 'absent', 'file'), marker)
    await openEmbeddedLog({ folder, schemas: SCHEMAS }).then((log) => log.close())
    await rm(marker)
    await openEmbeddedLog({ folder, schemas: SCHEMAS }).then((log) => log.close())
    assert.equal((await stat(marker)).mode & 0o777, 0o600)
  } finally {
    await rm(folder, { recursive: true })
  }
})

test('a start that was killed before the tables were made is repeated', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'instar-log-'))
  try {
    await writeFile(join(folder, 'log.db'), '')
    const log = await openEmbeddedLog({ folder, schemas: SCHEMAS })
    await log.append([note('a', 'one')])
    await log.close()
  } finally {
    await rm(folder, { recursive: true })
  }
})

test('a log without its first records throws log_truncated for writers and readers', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'instar-log-'))
  try {
    const log = await openEmbeddedLog({ folder, schemas: SCHEMAS })
    await log.append([note('a', 'one'), note('b', 'two')])
    await log.close()
    const file = new DatabaseSync(join(folder, 'log.db'))
    file.exec(`DELETE FROM turns WHERE offset = (SELECT min(offset) FROM turns)`)
    file.close()
    await assert.rejects(openEmbeddedLog({ folder, schemas: SCHEMAS }), refused('log_truncated'))
    await assert.rejects(openEmbeddedLog({ folder, readOnly: true }), refused('log_truncated'))
  } finally {
    await rm(folder, { recursive: true })
  }
})

test('a log without later records throws log_truncated for followers and for readers of a topic or a partition', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'instar-log-'))
  try {
    // The gap is before the last full block of the partition index in one topic, and after it in the other.
    for (const [records, missing] of [
      [2100, [700, 701]],
      [90, [40]],
    ] as const) {
      const log = await openEmbeddedLog({ folder, schemas: SCHEMAS })
      await log.append(range(records).map((i) => note(`k${i % 5}`, String(i))))
      const partition = (await all(log.read('turns'))).find(({ offset }) => offset === missing[0])!.partition
      await log.close()
      const file = new DatabaseSync(join(folder, 'log.db'))
      file.exec(`DELETE FROM turns WHERE offset IN (${missing.join()})`)
      file.close()
      const reading = async (options: { partition?: number }): Promise<unknown> => {
        const reader = await openEmbeddedLog({ folder, readOnly: true })
        try {
          return await all(reader.read('turns', options))
        } finally {
          await reader.close()
        }
      }
      await assert.rejects(reading({}), refused('log_truncated'))
      await assert.rejects(reading({ partition }), refused('log_truncated'))
      const follower = await openEmbeddedLog({ folder, readOnly: true })
      const handled: number[] = []
      const following = async (): Promise<void> =>
        (
          await follower.subscribe({
            topics: ['turns'],
            group: 'follower',
            from: 'start',
            handle: (batch) => void handled.push(...batch.map(({ offset }) => offset)),
          })
        ).done
      await assert.rejects(following(), refused('log_truncated'))
      assert.ok(handled.every((offset) => offset < missing[0]))
      await follower.close()
      await rm(folder, { recursive: true })
    }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
})

type Filled = { acknowledged: number; codes: string[]; ended: string | null }

/** Appends in a process whose files cannot exceed 1500 KiB. `then` is called at the first append that fails. */
const fill = async (module: string, place: string, then: (pid: number) => void): Promise<Filled> => {
  const child = spawn(
    'bash',
    ['-c', 'ulimit -S -f 1500; exec "$0" "$@"', process.execPath, ...run('filler', module, place)],
    { stdio: ['pipe', 'pipe', 'inherit'] },
  )
  let output = ''
  for await (const piece of child.stdout as AsyncIterable<Buffer>) {
    const waiting = !output.includes('refused\n')
    output += piece.toString()
    if (!waiting || !output.includes('refused\n')) continue
    then(child.pid!)
    child.stdin.write('go on\n')
  }
  return JSON.parse(output.replace('refused\n', '')) as Filled
}

const prlimit = spawnSync('prlimit', ['--version']).status === 0

describe('a file that cannot be written', { skip: process.platform === 'win32' }, () => {
  const feature = (
    title: string,
    skip: boolean,
    body: (opened: Opened, folder: string, module: string) => Promise<void>,
  ): void => {
    test(title, { timeout: 30_000, skip }, async () => {
      const opened = await openEmbedded()
      try {
        const { module, place } = opened.elsewhere!
        await opened.log.close()
        await body(opened, place, module)
      } finally {
        await opened.remove()
      }
    })
  }

  feature(
    'appends reject with log_unavailable while it is reopened, then with log_broken; acknowledged records are stored',
    false,
    async (opened, place, module) => {
      const { acknowledged, codes, ended } = await fill(module, place, () => {})
      assert.deepEqual(codes, ['log_unavailable', 'log_unavailable', 'log_broken'])
      assert.equal(ended, 'log_broken')
      assert.ok(acknowledged > 5, `${acknowledged} were acknowledged`)
      const log = await opened.reopen()
      const texts = (await all(log.read('turns'))).map((record) => Number(textOf(record).split('|')[0]))
      assert.deepEqual(texts, range(texts.length))
      assert.ok(texts.length >= acknowledged)
      await log.append([note('k', 'works again')])
    },
  )

  feature(
    'after a transient failure the log continues without lost or duplicate records',
    !prlimit,
    async (opened, place, module) => {
      const { acknowledged, codes } = await fill(module, place, (pid) =>
        assert.equal(spawnSync('prlimit', ['--pid', String(pid), '--fsize=unlimited']).status, 0),
      )
      assert.deepEqual(codes, ['log_unavailable'])
      assert.equal(acknowledged, 200)
      const log = await opened.reopen()
      const texts = (await all(log.read('turns'))).map((record) => Number(textOf(record).split('|')[0]))
      assert.deepEqual(texts, range(200))
    },
  )
})

test('a line says that the file cannot be written, once, and another one that it can again', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'instar-log-'))
  const lines: string[] = []
  const log = await openEmbeddedLog({ folder, schemas: SCHEMAS, logLine: (line) => lines.push(line) })
  // Another writer holds the file for longer than SQLite waits for it.
  const other = new DatabaseSync(join(folder, 'log.db'))
  try {
    await log.append([note('k', 'before')])
    assert.deepEqual(lines, [])
    other.exec('BEGIN IMMEDIATE')
    const unavailable = { code: 'log_unavailable' }
    await Promise.all([
      assert.rejects(log.append([note('k', 'a')]), unavailable),
      assert.rejects(log.append([note('k', 'b')]), unavailable),
    ])
    other.exec('ROLLBACK')
    await log.append([note('k', 'after')])
    assert.deepEqual(lines, [
      'the log cannot be written: database is locked; callers are told to retry until it can be',
      'the log can be written again',
    ])
  } finally {
    other.close()
    await log.close()
    await rm(folder, { recursive: true })
  }
})

test(
  'the folder has mode 700 and its files 600, also if they had other modes; parent folders are not changed',
  { skip: process.platform === 'win32' },
  async () => {
    const above = await mkdtemp(join(tmpdir(), 'instar-log-'))
    const modes = async (folder: string): Promise<string[]> =>
      Promise.all(
        [folder, ...['log.db', 'log.db-wal', 'log.lock'].map((name) => join(folder, name))].map(
          async (path) => `${path.slice(folder.length)} ${((await stat(path)).mode & 0o777).toString(8)}`,
        ),
      )
    try {
      await chmod(above, 0o755)
      const folder = join(above, 'data', 'log')
      const log = await openEmbeddedLog({ folder, schemas: SCHEMAS })
      await log.append([note('k', 'private')])
      assert.deepEqual(await modes(folder), [' 700', '/log.db 600', '/log.db-wal 600', '/log.lock 600'])
      await log.close()
      await chmod(folder, 0o755)
      for (const name of ['log.db', 'log.lock']) await chmod(join(folder, name), 0o644)
      const reopened = await openEmbeddedLog({ folder, schemas: SCHEMAS })
      await reopened.append([note('k', 'private again')])
      assert.deepEqual(await modes(folder), [' 700', '/log.db 600', '/log.db-wal 600', '/log.lock 600'])
      await reopened.close()
      const other = process.umask()
      assert.equal((await stat(join(above, 'data'))).mode & 0o777, 0o777 & ~other)
      assert.equal((await stat(above)).mode & 0o777, 0o755)
    } finally {
      await rm(above, { recursive: true })
    }
  },
)

test('a lock file that cannot be used throws data_unreadable, not data_in_use', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'instar-log-'))
  try {
    await mkdir(join(folder, 'log.lock'))
    await assert.rejects(openEmbeddedLog({ folder }), refused('data_unreadable'))
    await rm(join(folder, 'log.lock'), { recursive: true })
    await writeFile(join(folder, 'log.lock'), 'this is not a database, whatever its name says '.repeat(100))
    await assert.rejects(openEmbeddedLog({ folder }), refused('data_unreadable'))
    await writeFile(join(folder, 'file'), '')
    await assert.rejects(openEmbeddedLog({ folder: join(folder, 'file', 'log') }), refused('data_unreadable'))
  } finally {
    await rm(folder, { recursive: true })
  }
})
