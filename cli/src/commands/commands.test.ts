import { deepEqual, equal, match } from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { encodeEvent, schemaTexts, written, type UpdatesEvent, type WeightsEvent } from '@instar/events'
import { openEmbeddedLog, type EmbeddedLog } from '@instar/log'
import { VERSION } from '@instar/process'
import { COMMANDS } from './index.ts'
import { folder, instar } from '../../../test/kit/cli.ts'

const AT = Date.UTC(2026, 0, 1)
const SHA = (digit: number): string => String(digit).repeat(64)

const FIGURES = {
  loss: 0.125,
  tokens: 100,
  forwardPromptTokens: 3_000_000,
  forwardResponseTokens: 600_000,
  teacherTokens: 400_000,
  backwardPromptTokens: 1_500_000,
  backwardResponseTokens: 500_000,
}

/** Appends the base, two accepted versions and a rollback to version 1. */
const appendHistory = async (log: EmbeddedLog): Promise<void> => {
  const tips = { updates: '', weights: '' }
  const add = async (topic: 'updates' | 'weights', event: UpdatesEvent | WeightsEvent): Promise<string> => {
    const { id, ...record } = encodeEvent({ ...event, prev: tips[topic] })
    await log.append([record])
    tips[topic] = id
    return id
  }
  const policy = 'policy'
  await add('weights', {
    type: 'LineStarted',
    prev: '',
    policy,
    mode: 'live',
    base: { name: 'tiny', sha256: SHA(9) },
    parent: null,
    settings: {},
    at: AT,
  })
  for (const number of [1, 2]) {
    const item = {
      turn: `s.${number}`,
      record: SHA(6),
      session: 's',
      score: SHA(5),
      subject: 'u',
      version: number - 1,
      reward: 0.5,
      baseline: 0.25,
      advantage: 0.25,
      hint: written('Say it plainly.'),
      turnScore: 1,
      outcome: 0,
      closing: SHA(4),
    }
    const batch = await add('updates', {
      type: 'BatchSealed',
      prev: '',
      policy,
      number,
      parent: { version: number - 1, adapter: number === 1 ? null : SHA(1), state: null },
      items: [item],
      dropped: [{ turn: 's.9', reason: 'stale' }],
      baselines: [],
      seed: 7,
      loss: 'hybrid',
      settings: { rank: 4 },
      at: AT + number,
    })
    const update = await add('updates', {
      type: 'UpdateComputed',
      prev: '',
      policy,
      batch,
      number,
      adapter: SHA(number),
      adapterBytes: 8,
      state: SHA(8),
      stateBytes: 8,
      blobsAt: AT,
      fingerprint: { engine: 'onnx', build: 'b', isa: 'i', threads: 1, base: SHA(9) },
      figures: FIGURES,
      startedAt: AT,
      at: AT + number,
    })
    await add('weights', {
      type: 'VersionPublished',
      prev: '',
      policy,
      number,
      update,
      adapter: SHA(number),
      adapterBytes: 8,
      state: SHA(8),
      blobsAt: AT,
      parent: number - 1,
      why: 'update',
      source: null,
      figures: { kl_parent: 0.01 },
      at: AT + 60_000 * number,
    })
  }
  await add('weights', {
    type: 'HeadMoved',
    prev: '',
    policy,
    from: 2,
    to: 1,
    who: 'cli',
    why: 'rollback',
    request: 'r',
    freeze: true,
    at: AT + 180_000,
  })
}

/** `whileOpen` runs while the log is open for writing. */
const withHistory = async (
  whileOpen: (env: Record<string, string>) => Promise<void> = async () => undefined,
): Promise<Record<string, string>> => {
  const env = { INSTAR_DATA: folder() }
  const log = await openEmbeddedLog({ folder: join(env.INSTAR_DATA, 'log'), schemas: schemaTexts() })
  try {
    await appendHistory(log)
    await whileOpen(env)
  } finally {
    await log.close()
  }
  return env
}

describe('the command line', () => {
  test('help lists every command, and every command has its own help', async () => {
    for (const args of [[], ['help'], ['--help']]) {
      const { code, out } = await instar(args, {})
      equal(code, 0)
      for (const name of Object.keys(COMMANDS)) match(out, new RegExp(`^  ${name} +\\w`, 'm'))
    }
    for (const name of Object.keys(COMMANDS)) {
      for (const args of [
        [name, '--help'],
        ['help', name],
      ]) {
        const { code, out } = await instar(args, {})
        equal(code, 0)
        match(out, new RegExp(`^usage: instar ${name}`))
      }
    }
  })

  test('every file of a command is in the table', () =>
    deepEqual(
      readdirSync(import.meta.dirname)
        .filter((file) => !/^index\.ts$|\.test\.ts$/.test(file))
        .toSorted(),
      Object.keys(COMMANDS)
        .map((name) => `${name}.ts`)
        .toSorted(),
    ))

  test('--version prints the version and nothing else', async () => {
    for (const option of ['--version', '-v']) {
      const { code, out, err } = await instar([option], {})
      deepEqual([code, out, err], [0, `${VERSION}\n`, ''])
    }
  })

  test('an invalid command line exits with 2 and prints the usage', async () => {
    for (const args of [
      ['nope'],
      ['versions', '--nope'],
      ['versions', 'x'],
      ['show'],
      ['show', 'three'],
      ['rollback', '1', '2'],
      ['up', '--engine', 'abacus'],
      ['demo', '--seed', 'x'],
      ['sql', 'select 1', '--timeout', 'x'],
      ['sql', 'select 1', '--timeout', 'Infinity'],
      ['sql', 'select 1', '--timeout', '86401'],
    ]) {
      const { code, err, out } = await instar(args, { INSTAR_DATA: folder() })
      equal(code, 2, args.join(' '))
      equal(out, '')
      match(err, /usage: instar/)
    }
  })

  test('an error prints its code, its message and what to do; with --json also as the last line', async () => {
    const { code, err, json } = await instar(['show', '3', '--json'], { INSTAR_DATA: folder() })
    equal(code, 1)
    match(err, /^instar show: unknown_version: The policy has no version 3\.\nUse a version/)
    deepEqual(json, { error: { code: 'unknown_version', message: 'The policy has no version 3.' } })
  })

  test('commands to a gateway fail with not_running if no pipeline runs', async () => {
    for (const args of [['rollback', '1'], ['thaw'], ['promote', 'again']]) {
      const { code, json } = await instar([...args, '--json'], { INSTAR_PORT: '9' })
      equal(code, 1)
      equal((json as { error: { code: string } }).error.code, 'not_running')
    }
  })

  test('an invalid setting stops a command', async () => {
    const { code, err } = await instar(['versions'], { INSTAR_PORT: 'x' })
    equal(code, 1)
    match(err, /bad_request: INSTAR_PORT=x/)
  })
})

describe('versions and show, from the log', () => {
  test('before the first start the policy has its base version only', async () => {
    const { code, json, err } = await instar(['versions', '--json'], { INSTAR_DATA: folder() })
    equal(code, 0)
    deepEqual(json, [
      {
        version: 0,
        parent: null,
        sha256: null,
        status: 'serving',
        why: 'base',
        published_at: null,
        trained_turns: null,
        mean_reward: null,
        figures: {},
        limits: {},
        tokens: null,
        cost: null,
      },
    ])
    match(err, /no log in/)
  })

  test('versions: parent, status, batch figures', async () => {
    const env = await withHistory()
    const { code, json } = await instar(['versions', '--json'], env)
    equal(code, 0)
    deepEqual(
      (
        json as {
          version: number
          parent: number | null
          status: string
          sha256: string | null
          trained_turns: number | null
          mean_reward: number | null
        }[]
      ).map(({ version, parent, status, sha256, trained_turns, mean_reward }) => [
        version,
        parent,
        status,
        sha256,
        trained_turns,
        mean_reward,
      ]),
      [
        [0, null, 'superseded', null, null, null],
        [1, 0, 'serving', SHA(1), 1, 0.5],
        [2, 1, 'rolled_back', SHA(2), 1, 0.5],
      ],
    )
    const { out } = await instar(['versions'], env)
    match(out, /^ +2 +1 +rolled_back +update +2026-01-01 00:02 +1 +0\.50 +0\.0100 +222222222222$/m)
    match(out, /learning is frozen/)
  })

  test('versions: the tokens of an update, and what it costs by the prices of the settings', async () => {
    const env = await withHistory()
    const costs = async (prices: Record<string, unknown>): Promise<unknown[]> => {
      const priced = { ...env, INSTAR_SETTINGS: JSON.stringify({ prices }) }
      const { json } = await instar(['versions', '--json'], priced)
      return (json as { cost: unknown }[]).map(({ cost }) => cost)
    }
    const table = { currency: 'EUR', forward: 0.1, forwardBackward: 0.4 }
    deepEqual(await costs(table), [null, { currency: 'EUR', amount: 1.2 }, { currency: 'EUR', amount: 1.2 }])
    deepEqual(await costs({ forward: 0.1, forwardBackward: 0.4 }), [null, null, null])
    const { json } = await instar(['versions', '--json'], env)
    deepEqual((json as { tokens: unknown }[])[1]?.tokens, {
      forward_prompt: 3_000_000,
      forward_response: 600_000,
      teacher: 400_000,
      backward_prompt: 1_500_000,
      backward_response: 500_000,
    })
    const { out } = await instar(['versions'], { ...env, INSTAR_SETTINGS: JSON.stringify({ prices: table }) })
    match(out, /KL parent +cost +sha256/)
    match(out, /0\.0100 +1\.2 EUR +222222222222$/m)
  })

  test('show: turns, figures, served intervals', async () => {
    const env = await withHistory()
    const { json } = await instar(['show', '1', '--json'], env)
    const shown = json as Record<string, unknown>
    deepEqual(shown.turns, [
      {
        turn_id: 's.1',
        session_id: 's',
        version: 0,
        reward: 0.5,
        turn_score: 1,
        outcome: 0,
        baseline: 0.25,
        advantage: 0.25,
        hint: 'Say it plainly.',
      },
    ])
    deepEqual(shown.dropped, [{ turn_id: 's.9', reason: 'stale' }])
    deepEqual(shown.gate, { kl_parent: 0.01 })
    deepEqual((shown.update as { figures: unknown }).figures, FIGURES)
    deepEqual(shown.served, [
      { from: '2026-01-01T00:01:00.000Z', to: '2026-01-01T00:02:00.000Z' },
      { from: '2026-01-01T00:03:00.000Z', to: null },
    ])
    match((await instar(['show', 'v1'], env)).out, /^version 1: serving, update, from version 0/)
  })

  test('a log that is open for writing can be read', async () => {
    await withHistory(async (env) => {
      equal(((await instar(['versions', '--json'], env)).json as unknown[]).length, 3)
    })
  })
})

describe('sql without a pipeline', () => {
  test('starts the database, updates it from the log, stops it', async () => {
    const env = await withHistory()
    const { code, json } = await instar(
      ['sql', 'select version, parent, sha256, status from versions order by version', '--json'],
      env,
    )
    equal(code, 0)
    deepEqual(json, [
      { version: 0, parent: null, sha256: null, status: 'superseded' },
      { version: 1, parent: 0, sha256: SHA(1), status: 'serving' },
      { version: 2, parent: 1, sha256: SHA(2), status: 'rolled_back' },
    ])
    const refused = await instar(['sql', 'delete from all_versions', '--json'], env)
    equal(refused.code, 1)
    equal((refused.json as { error: { code: string } }).error.code, 'bad_sql')
  })

  test('without a log it fails with data_unreadable', async () => {
    const { code, json } = await instar(['sql', 'select 1', '--json'], { INSTAR_DATA: folder() })
    equal(code, 1)
    equal((json as { error: { code: string } }).error.code, 'data_unreadable')
  })
})
