/** `instar import` and `instar export`: the imported turns are joined and scored like captured ones. */
import { decodeRecord, readWritten, schemaTexts, type FeedbackGiven, type SessionClosed } from '@instar/events'
import { openEmbeddedLog } from '@instar/log'
import { createScorer, scorerConfig } from '@instar/scorer'
import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { describe, test } from 'node:test'
import { model, startRig, USER } from '../../../test/kit/gateway.ts'
import { folder, instar } from '../../../test/kit/cli.ts'
import { importFile, jsonLines as file, readLog } from '../../../test/kit/imported.ts'

/** Captures three turns and feedback with a real gateway. */
const captureConversation = async (data: string): Promise<void> => {
  const log = await openEmbeddedLog({ folder: join(data, 'log'), schemas: schemaTexts() })
  let answers = 0
  const rig = await startRig({
    log,
    script: () => `Answer ${(answers += 1)} <tool_call>{"name": "look", "arguments": {"at":  ${answers}}}</tool_call>`,
  })
  const messages: { role: string; [key: string]: unknown }[] = [USER('Where is it?')]
  for (const next of ['Not there.', 'Thank you!', null]) {
    const response = await rig.fetch('/v1/chat/completions', {
      json: {
        model: 'policy',
        messages,
        tools: [{ type: 'function', function: { name: 'look', parameters: {} } }],
        user: 'ann',
      },
      headers: { 'x-session-id': 'desk', 'x-claude-code-prompt-id': 'prompt-1' },
    })
    const {
      choices: [choice],
    } = (await response.json()) as { choices: { message: { role: string } }[] }
    messages.push(choice!.message, ...(next === null ? [] : [USER(next)]))
    if (next === null)
      equal(
        (
          await rig.fetch('/v1/feedback', {
            json: { turn_id: response.headers.get('x-instar-turn-id'), value: 0.5, comment: 'good' },
          })
        ).status,
        200,
      )
  }
  await rig.stop()
  await log.close()
}

describe('instar export and import', () => {
  test('an imported conversation equals the exported one: ids, tokens, text, joins, feedback; a repeated import adds nothing', async (t) => {
    const [from, to] = [folder(), folder()]
    await captureConversation(from)
    const path = join(folder(), 'desk.jsonl')
    const exported = await instar(['export', path, '--json'], { INSTAR_DATA: from })
    deepEqual(
      [exported.code, exported.json],
      [
        0,
        {
          sessions: 1,
          turns: 3,
          aborted: 0,
          unshown: 0,
          feedback: 1,
          outcomes: 0,
          discarded: 0,
          damaged: 0,
          unreadable: [],
        },
      ],
      exported.err,
    )
    equal(
      (await instar(['export', path, '--json'], { INSTAR_DATA: from })).code,
      1,
      'an existing file is not overwritten',
    )

    const dry = await importFile(to, path, '--dry-run')
    deepEqual([dry.turns, dry.exact, dry.feedback], [3, 3, 1])
    const withoutOption = folder()
    const { trainable, not_trainable: why } = await importFile(withoutOption, path)
    deepEqual([trainable, why], [0, { not_sampled: 3 }], 'without --own-versions no turn of a file is trainable')

    const { code, ...first } = await importFile(to, path, '--own-versions')
    deepEqual(
      [code, first.lines, first.sessions, first.turns, first.exact, first.trainable, first.feedback, first.there],
      [0, 3, 1, 3, 3, 3, 1, 0],
    )
    const [a, b] = [await readLog(t, from), await readLog(t, to)]
    equal(b.turns.length, 3)
    equal(b.of(b.turns[0]!.turn).userTurn, 'prompt-1')
    equal(b.of(b.turns[0]!.turn).agent, 'Claude Code')
    for (const [i, before] of a.turns.entries()) {
      const after = b.turns[i]!
      for (const name of [
        'turn',
        'session',
        'version',
        'kind',
        'subject',
        'group',
        'digest',
        'answer',
        'follows',
        'next',
        'trainable',
        'at',
        'finishedAt',
      ] as const)
        deepEqual(after[name], before[name], name)
      deepEqual(
        after.feedback.map(({ id, value, at, comment }) => [id, value, at, readWritten(comment!)]),
        before.feedback.map(({ id, value, at, comment }) => [id, value, at, readWritten(comment!)]),
      )
      const [exported, imported] = [a.of(before.turn), b.of(before.turn)]
      for (const name of [
        'tokens',
        'ids',
        'logprobs',
        'sampling',
        'toolCallIds',
        'after',
        'stateFrom',
        'offPrefix',
        'finish',
        'labelSource',
        'userTurn',
        'agent',
      ] as const)
        deepEqual(imported[name], exported[name], name)
      equal(readWritten(imported.text), readWritten(exported.text))
      deepEqual(await b.reader.promptIds(before.turn), await a.reader.promptIds(before.turn))
      deepEqual(await b.reader.body(before.turn), await a.reader.body(before.turn))
    }
    ok(b.of(b.turns[2]!.turn).body.from !== null, 'a repeated part of a request is stored as a reference')

    for (const data of [from, to]) {
      const before = (await readLog(t, data)).records
      const repeated = await importFile(data, path)
      deepEqual([repeated.code, repeated.turns, repeated.feedback, repeated.there], [0, 0, 0, 3])
      equal((await readLog(t, data)).records, before)
    }
  })

  test('an unknown session is an error and creates no file; a file that cannot be read is refused', async () => {
    const data = folder()
    await captureConversation(data)
    const path = join(folder(), 'none.jsonl')
    for (const to of [path, '-']) {
      const { code, err, out } = await instar(['export', to, '--session', 'desk-2'], { INSTAR_DATA: data })
      deepEqual([code, out, existsSync(path)], [1, '', false])
      match(err, /^instar export: unknown_turn: The log has no session desk-2\./)
    }
    deepEqual(
      (await instar(['export', join(folder(), 'desk.jsonl'), '--session', 'desk', '--json'], { INSTAR_DATA: data }))
        .json,
      {
        sessions: 1,
        turns: 3,
        aborted: 0,
        unshown: 0,
        feedback: 1,
        outcomes: 0,
        discarded: 0,
        damaged: 0,
        unreadable: [],
      },
    )
    for (const [from, why] of [
      [data, 'it is not a regular file'],
      [path, 'ENOENT'],
    ] as const) {
      const { code, err } = await instar(['import', from], { INSTAR_DATA: data })
      equal(code, 1)
      match(err, new RegExp(`^instar import: bad_request: ${from} cannot be read: ${why}\\.`))
    }
  })

  test('a damaged record is left out with the answers that need it, and reported; the others are exported', async () => {
    const data = folder()
    await captureConversation(data)
    const log = await openEmbeddedLog({ folder: join(data, 'log'), readOnly: true })
    const turns: { turn: string; offset: number; from: string | null }[] = []
    for await (const records of log.read('turns'))
      for (const record of records) {
        const { event } = decodeRecord(record)
        if (event.type === 'TurnCaptured')
          turns.push({ turn: event.turn, offset: record.offset, from: event.body.from })
      }
    await log.close()
    const [first, second, third] = turns
    equal(third!.from, second!.turn)
    const db = new DatabaseSync(join(data, 'log', 'log.db'))
    db.prepare('UPDATE turns SET payload = ? WHERE offset = ?').run(Buffer.from([255, 0]), second!.offset)
    db.close()
    const path = join(folder(), 'rest.jsonl')
    const { code, err, json } = await instar(['export', path, '--json'], { INSTAR_DATA: data })
    const reason = `unknown_turn: turn ${second!.turn} is not on the log`
    deepEqual(
      [code, json],
      [
        1,
        {
          sessions: 1,
          turns: 1,
          aborted: 0,
          unshown: 0,
          feedback: 0,
          outcomes: 0,
          discarded: 0,
          damaged: 1,
          unreadable: [{ turn: third!.turn, reason }],
        },
      ],
    )
    match(err, new RegExp(`^${third!.turn} is left out: ${reason}`, 'm'))
    const lines = readFileSync(path, 'utf8').trim().split('\n')
    deepEqual(
      lines.map(
        (line) => (JSON.parse(line) as { response: { choices: { turn_id: string }[] } }).response.choices[0]!.turn_id,
      ),
      [first!.turn],
    )
  })

  test('the scorer judges imported turns by their next state', async (t) => {
    const [from, to] = [folder(), folder()]
    await captureConversation(from)
    const path = join(folder(), 'desk.jsonl')
    await instar(['export', path], { INSTAR_DATA: from })
    await importFile(to, path, '--own-versions')
    const log = await openEmbeddedLog({ folder: join(to, 'log'), schemas: schemaTexts() })
    t.after(() => log.close())
    const third = Promise.withResolvers<void>()
    let scored = 0
    const scorer = createScorer(
      {
        log,
        now: Date.now,
        onFatal: third.reject,
        onScored: () => {
          if ((scored += 1) === 3) third.resolve()
        },
      },
      scorerConfig.parse({}),
    )
    await scorer.start()
    await third.promise
    await scorer.stop()
    const rewards: Record<string, number> = {}
    for await (const batch of log.read('scores'))
      for (const record of batch) {
        const { event } = decodeRecord(record)
        if (event.type === 'TurnScored') rewards[event.turn] = event.reward
      }
    const { turns } = await readLog(t, to)
    equal(rewards[turns[1]!.turn], 1, 'thanked')
    equal(rewards[turns[2]!.turn], 0.5, 'explicit feedback')
  })
})

const exchange = (messages: object[], answer: string, more: object = {}) => ({
  request: { model: 'gpt', messages },
  response: {
    created: 1_700_000_000,
    choices: [{ index: 0, finish_reason: 'stop', message: { role: 'assistant', content: answer } }],
  },
  ...more,
})
const ASSISTANT = (content: string) => ({ role: 'assistant', content })

describe('instar import: logs of requests', () => {
  test('requests without a session id are joined; an invalid line is skipped; a file that has grown adds what is new', async (t) => {
    const data = folder()
    const lines: unknown[] = [
      exchange([USER('Name a river.')], 'The Aare.'),
      '{"request": {',
      exchange([USER('Name a river.'), ASSISTANT('The Aare.'), USER('Longer!')], 'The Rhine, then.', { reward: false }),
      exchange([{ role: 'user', content: [{ type: 'image_url', image_url: {} }] }], 'A cat.'),
      { ...exchange([USER('x')], ''), response: { status_code: 500, body: { error: { message: 'down' } } } },
      exchange([USER('Name a river.')], 'The Aare.'),
    ]
    const { code, ...report } = await importFile(data, file(lines))
    equal(code, 1)
    deepEqual(
      [report.lines, report.sessions, report.turns, report.exact, report.trainable, report.feedback, report.repeated],
      [6, 1, 2, 0, 0, 1, 1],
    )
    deepEqual(report.not_trainable, { no_ids: 2 })
    deepEqual(
      report.skipped.map(({ line }) => line),
      [2, 4, 5],
    )
    match(report.skipped[1]!.reason, /messages\[0\]\.content\[0\] is of type image_url/)
    const { turns, events, of } = await readLog(t, data)
    deepEqual([turns[0]!.next, turns[1]!.follows], [turns[1]!.turn, turns[0]!.turn])
    const feedback = events.find((event): event is FeedbackGiven => event.type === 'FeedbackGiven')!
    deepEqual([feedback.turn, feedback.value, feedback.at], [turns[1]!.turn, -1, 1_700_000_000_000])
    const turn = of(turns[0]!.turn)
    deepEqual(
      [turn.version, turn.adapter, turn.tokens, turn.reason, turn.at, turn.kind],
      [-1, null, 'none', 'no_ids', 1_700_000_000_000, 'main'],
    )

    const longer = [
      USER('Name a river.'),
      ASSISTANT('The Aare.'),
      USER('Longer!'),
      ASSISTANT('The Rhine, then.'),
      USER('Thanks'),
    ]
    const grown = await importFile(data, file([...lines, exchange(longer, 'Welcome.')]))
    deepEqual([grown.turns, grown.there, grown.feedback], [1, 2, 0])
    equal((await readLog(t, data)).turns[2]!.follows, turns[1]!.turn)
  })

  test('a turn is token-exact if ids, log-probs and version are present and agree; otherwise it has a reason', async (t) => {
    const data = folder()
    const messages = [USER('Say it.')]
    const prompt = model.promptIds(messages, {})
    const ids = [...model.encode('It is said.'), model.endOfTurn[0]!]
    const logprobs = ids.map((_, i) => -0.25 * (i + 1))
    const line = (
      session: string,
      { response = {}, choice = {}, ...more }: { response?: object; choice?: object; [key: string]: unknown } = {},
    ) => ({
      session_id: session,
      timestamp: '2026-01-02T03:04:05Z',
      request: { model: 'policy', messages, temperature: 0.7 },
      ...more,
      response: {
        system_fingerprint: 'instar-policy@0',
        prompt_token_ids: prompt,
        choices: [
          {
            index: 0,
            message: ASSISTANT('It is said.'),
            token_ids: ids,
            logprobs: { content: logprobs.map((logprob) => ({ logprob })) },
            finish_reason: 'stop',
            ...choice,
          },
        ],
        ...response,
      },
    })
    const cases: [string, ReturnType<typeof line>, string | null][] = [
      ['good', line('good'), null],
      ['logprobs', line('logprobs', { choice: { logprobs: null } }), 'no_logprobs'],
      ['lengths', line('lengths', { choice: { logprobs: { content: [{ logprob: -1 }] } } }), 'lengths_differ'],
      ['prompt', line('prompt', { response: { prompt_token_ids: undefined } }), 'no_prompt_ids'],
      ['version', line('version', { response: { system_fingerprint: 'fp_1' } }), 'no_version'],
      ['foreign', line('foreign', { response: { system_fingerprint: 'fp_1' }, policy_version: 0 }), 'foreign_version'],
      ['unknown', line('unknown', { response: { system_fingerprint: 'instar-policy@7' } }), 'unknown_version'],
      ['adapter', line('adapter', { adapter: 'ab'.repeat(32) }), 'other_adapter'],
      ['text', line('text', { choice: { message: ASSISTANT('It is not said.') } }), 'text_differs'],
      [
        'vocabulary',
        line('vocabulary', { response: { prompt_token_ids: [...prompt, 151_643] } }),
        'not_this_vocabulary',
      ],
      [
        'certain',
        line('certain', { choice: { logprobs: { content: logprobs.map(() => ({ logprob: 0.5 })) } } }),
        'bad_logprobs',
      ],
      ['greedy', line('greedy', { request: { messages, temperature: 0 } }), 'greedy'],
      [
        'format',
        line('format', { request: { messages, temperature: 0.7, response_format: { type: 'json_object' } } }),
        'constrained',
      ],
      ['choice', line('choice', { request: { messages, temperature: 0.7, tool_choice: 'required' } }), 'constrained'],
      ['private', line('private', { no_train: true }), 'opted_out'],
    ]
    const foreign = cases.filter(([session]) => session === 'foreign').map(([, one]) => one)
    equal((await importFile(data, file(foreign))).turns, 1)
    const { code, ...report } = await importFile(
      data,
      file(cases.filter(([session]) => session !== 'foreign').map(([, one]) => one)),
      '--own-versions',
    )
    deepEqual([code, report.turns, report.exact, report.trainable], [0, 14, 5, 1])
    const { turns, of } = await readLog(t, data)
    for (const [session, , reason] of cases)
      equal(turns.find((turn) => turn.session === session)!.reason, reason, session)
    const good = of(turns.find(({ session }) => session === 'good')!.turn)
    deepEqual(
      [good.ids, good.logprobs, good.sampling.temperature, good.version, good.at, readWritten(good.text)],
      [ids, logprobs, 0.7, 0, Date.parse('2026-01-02T03:04:05Z'), 'It is said.'],
    )
  })
})

describe('instar import: conversations', () => {
  test('each answer is a turn; tool results are next states; rewards are scaled to −1…1', async (t) => {
    const data = folder()
    const call = { id: 'c1', type: 'function', function: { name: 'f', arguments: '{"a":1}' } }
    const lines = [
      {
        messages: [
          { role: 'system', content: 'S' },
          USER('Do it'),
          { role: 'assistant', content: null, tool_calls: [call] },
          { role: 'tool', tool_call_id: 'c1', content: 'exit code 1' },
          ASSISTANT('Failed.'),
          USER('No, wrong.'),
          { ...ASSISTANT('Sorry.'), reward: 1 },
        ],
        tools: [{ type: 'function', function: { name: 'f' } }],
      },
      {
        conversations: [
          { from: 'human', value: 'Hi' },
          { from: 'gpt', value: 'Hello' },
        ],
        session_id: 'mine',
        reward: 0.25,
      },
      { messages: [USER('nobody answers')] },
    ]
    const { code, ...report } = await importFile(data, file(lines), '--rewards', '0:1')
    deepEqual(
      [code, report.sessions, report.turns, report.feedback, report.skipped.map(({ line }) => line)],
      [1, 2, 4, 2, [3]],
    )
    const { turns, events, of } = await readLog(t, data)
    deepEqual(
      turns.map(({ follows, next }) => [
        turns.findIndex(({ turn }) => turn === follows),
        turns.findIndex(({ turn }) => turn === next),
      ]),
      [
        [-1, 1],
        [0, 2],
        [1, -1],
        [-1, -1],
      ],
    )
    deepEqual(
      [of(turns[1]!.turn).stateFrom, of(turns[0]!.turn).finish, readWritten(of(turns[0]!.turn).text)],
      [3, 'tool_calls', '<tool_call>\n{"name": "f", "arguments": {"a":1}}\n</tool_call>'],
    )
    deepEqual(
      events.filter((event) => event.type === 'FeedbackGiven').map(({ turn, value }) => [turn, value]),
      [
        [turns[2]!.turn, 1],
        [turns[3]!.turn, -0.5],
      ],
    )
    equal(turns[3]!.session, 'mine')
    deepEqual(
      [
        (await importFile(data, file(lines), '--rewards', '0:1')).turns,
        (await importFile(data, file(lines), '--rewards', '0:1')).feedback,
      ],
      [0, 0],
    )
  })
})

test('a long request is stored in blobs and repeated by reference; long lines, CRLF and a BOM are read; invalid UTF-8 is skipped', async (t) => {
  const data = folder()
  const long = 'A river. '.repeat(100_000)
  const path = join(folder(), 'long.jsonl')
  const line = JSON.stringify({
    messages: [USER(long), ASSISTANT('Noted.'), USER('Again!'), ASSISTANT('Noted again.')],
    session_id: 'long',
  })
  const accents = JSON.stringify({ messages: [USER('é'), ASSISTANT('ü')] })
  writeFileSync(
    path,
    Buffer.concat([Buffer.from(`\ufeff\r\n${line}\r\n\n${accents}\n`), Buffer.from(accents, 'latin1')]),
  )
  const { code, ...report } = await importFile(data, path)
  deepEqual([code, report.lines, report.turns], [1, 3, 3])
  deepEqual(
    report.skipped.map(({ line: number, reason }) => [number, reason]),
    [[5, 'The line is not a JSON object in UTF-8.']],
  )
  const { turns, of, reader } = await readLog(t, data)
  ok(of(turns[0]!.turn).body.blob !== null && of(turns[1]!.turn).body.from === turns[0]!.turn)
  deepEqual(JSON.parse(Buffer.from(await reader.body(turns[1]!.turn)).toString()), {
    messages: [USER(long), ASSISTANT('Noted.'), USER('Again!')],
  })
  equal(readWritten(of(turns[2]!.turn).text), 'ü')
})

describe('instar import: steps of Claw-R1', () => {
  const steps = () => {
    const first = model.promptIds([USER('2+2?')], {})
    const firstIds = [...model.encode('Five.'), model.endOfTurn[0]!]
    const then = model.promptIds(
      [USER('2+2?'), { role: 'assistant', content: 'Five.', token_ids: firstIds }, USER('No.')],
      {},
    )
    const step = (index: number, prompt: number[], ids: number[], more: object = {}) => ({
      prompt_ids: prompt,
      response_ids: ids,
      rollout_log_probs: ids.map(() => -0.5),
      reward: null,
      trajectory_uid: 'traj-1',
      prompt_uid: '7',
      step_index: index,
      policy_version: 0,
      is_last: false,
      metadata: { temperature: 1 },
      ...more,
    })
    return {
      firstIds,
      step,
      all: [
        step(1, then, [...model.encode('Four.'), model.endOfTurn[0]!], { reward: 1, is_last: true }),
        step(0, first, firstIds),
      ],
    }
  }

  test('a trajectory is a session ordered by step index, joined by token ids, closed by its last step; --own-versions applies', async (t) => {
    const { all, step, firstIds } = steps()
    const otherData = folder()
    const plain = await importFile(otherData, file([...all, all[1]]))
    deepEqual(
      [plain.sessions, plain.turns, plain.exact, plain.repeated, plain.not_trainable],
      [1, 2, 0, 1, { foreign_version: 2 }],
    )
    const data = folder()
    const { code, ...report } = await importFile(data, file([{ steps: all }]), '--own-versions')
    deepEqual([code, report.turns, report.exact, report.trainable, report.feedback], [0, 2, 2, 2, 1])
    const { turns, events, of, reader } = await readLog(t, data)
    deepEqual([turns[0]!.session, turns[0]!.next, turns[1]!.follows], ['traj-1', turns[1]!.turn, turns[0]!.turn])
    deepEqual(
      [of(turns[1]!.turn).offPrefix, of(turns[0]!.turn).ids, await reader.promptIds(turns[1]!.turn)],
      [false, firstIds, all[0]!.prompt_ids],
    )
    deepEqual(JSON.parse(Buffer.from(await reader.body(turns[1]!.turn)).toString()), {
      messages: [USER('2+2?'), ASSISTANT('Five.'), USER('No.')],
    })
    deepEqual(
      events
        .filter((event): event is SessionClosed => event.type === 'SessionClosed')
        .map(({ open, why }) => [open, why]),
      [[turns.map(({ turn }) => turn), 'client']],
    )
    equal((await importFile(data, file(all), '--own-versions')).turns, 0)

    const sibling = { ...step(0, all[1]!.prompt_ids, model.encode('4')), trajectory_uid: 'traj-2' }
    const other = { ...step(0, model.promptIds([USER('3+3?')], {}), model.encode('6')), trajectory_uid: 'traj-3' }
    await importFile(data, file([sibling, other, { ...sibling, prompt_ids: 'x' }]), '--own-versions')
    const groups = new Map((await readLog(t, data)).turns.map(({ session, group }) => [`${session}`, group]))
    const first = of(turns[0]!.turn).group
    deepEqual(
      [groups.get('traj-2') === first, groups.get('traj-3') === first],
      [true, false],
      'rollouts of the same prompt are one group, also with different prompt_uid',
    )
  })
})
