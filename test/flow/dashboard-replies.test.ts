/** Replies of `/v1/dashboard` of a running pipeline are as `/openapi.json` says, and as the pages' types say. */
import assert from 'node:assert/strict'
import { rmSync } from 'node:fs'
import { mkdtemp, readFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { Ajv2020 } from 'ajv/dist/2020.js'
import type { z } from 'zod'
import type * as rows from '../../packages/dashboard/web/rows.ts'
import type * as lineage from '../../services/gateway/src/receive/openapi/lineage-replies.ts'
import type * as sessions from '../../services/gateway/src/receive/openapi/session-replies.ts'
import { up } from '../kit/up.ts'
import { branched, cli, converse, poster, published, until } from '../web/rig.ts'

/** What the schema promises is what the pages read; a difference is an error of types. */
type Promised<Schema extends z.ZodType, Page> = z.output<Schema> extends Page ? true : never
const PROMISED: readonly true[] = [
  true satisfies Promised<typeof lineage.learningReply, rows.Learning>,
  true satisfies Promised<typeof lineage.callersReply, rows.CallerPage>,
  true satisfies Promised<typeof lineage.versionReply, { version: rows.VersionRow; turns: rows.BatchTurnRow[] }>,
  true satisfies Promised<typeof sessions.sessionsReply, { rows: rows.SessionRow[]; next: rows.Next }>,
  true satisfies Promised<typeof sessions.sessionReply, { turns: { rows: rows.TurnRow[]; next: rows.Next } }>,
  true satisfies Promised<typeof sessions.turnReply, { turn: rows.TurnRow; group: rows.CandidateRow[] }>,
  true satisfies Promised<typeof sessions.turnTextReply, rows.TurnTextRow>,
  true satisfies Promised<typeof sessions.turnLearnedReply, rows.LearnedRow>,
  true satisfies Promised<typeof sessions.searchReply, rows.SearchRows>,
]

type Schema = Record<string, unknown>
type Document = {
  paths: Record<string, Record<string, { responses: Record<string, { content: Record<string, { schema: Schema }> }> }>>
}

test('real replies of each address of the dashboard match their schemas', { timeout: 280_000 }, async (t) => {
  const folder = await mkdtemp(path.join(tmpdir(), 'instar-replies-'))
  const { ready, child, ended, env } = await up(path.join(folder, 'data'))
  t.after(async () => {
    child.kill('SIGTERM')
    await ended
    rmSync(folder, { recursive: true, force: true })
  })
  assert.equal(PROMISED.length, 9)
  const { url } = ready
  const post = poster(() => url)
  await converse(post, 'ann')
  await published(url)
  const token = (await readFile(path.join(folder, 'data', 'admin.token'), 'utf8')).trim()
  const command = async (name: string, body: object): Promise<void> => {
    const headers = { 'content-type': 'application/json', authorization: `Bearer ${token}` }
    const response = await fetch(`${url}/admin/${name}`, { method: 'POST', headers, body: JSON.stringify(body) })
    assert.ok(response.ok, `${name} ${response.status}`)
  }
  await command('freeze', { why: 'A test' })
  await cli(env, 'replay', '--branch', 'other', '--set', 'lr=0.001', '--json')
  await branched(url, 'other')
  await command('rollback', { version: 0, why: 'A test' })
  await until<{ freezes: unknown[]; moves: { to_version: number; why: string }[] }>(
    url,
    'lately',
    ({ freezes, moves }) => freezes.length > 0 && moves.some(({ why }) => why === 'A test'),
  )
  const read = async <T>(address: string): Promise<T> =>
    (await (await fetch(`${url}/v1/dashboard/${address}`)).json()) as T
  const { turns } = await read<{ turns: { turn_id: string; session_id: string; used: boolean }[] }>('versions/1')
  const { turn_id: turn, session_id: session } = turns.find(({ used }) => used)!
  const addresses: Record<string, string[]> = {
    now: ['now'],
    health: ['health'],
    errors: ['errors'],
    lately: ['lately'],
    versions: ['versions', `versions?until=${new Date().toISOString()}`],
    'versions/{version}': ['versions/0', 'versions/1'],
    'versions/{version}/turns': ['versions/1/turns', 'versions/1/turns?after=10'],
    learning: ['learning'],
    callers: ['callers?by=subject', 'callers?by=key'],
    sessions: ['sessions', 'sessions?reward=negative'],
    'sessions/{id}': [`sessions/${session}`],
    search: ['search?text=plus'],
    'turns/{id}': [`turns/${turn}`],
    'turns/{id}/text': [`turns/${turn}/text`],
    'turns/{id}/tokens': [`turns/${turn}/tokens`],
    'turns/{id}/logprobs': [`turns/${turn}/logprobs?version=1`],
    'turns/{id}/learned': [`turns/${turn}/learned`],
    beginnings: [`beginnings?session=${session}`],
    prompts: ['prompts'],
    session: ['session'],
  }
  const document = (await (await fetch(`${url}/openapi.json`)).json()) as Document
  const described = Object.entries(document.paths).flatMap(([name, methods]) => {
    const json = methods['get']?.responses['200']?.content['application/json']
    return name.startsWith('/v1/dashboard/') && json
      ? [[name.slice('/v1/dashboard/'.length), json.schema] as const]
      : []
  })
  assert.deepEqual(described.map(([name]) => name).toSorted(), Object.keys(addresses).toSorted())
  const ajv = new Ajv2020({ strict: false, validateFormats: false })
  for (const [name, schema] of described) {
    assert.ok('properties' in schema || schema['propertyNames'] !== undefined, `${name} has a schema of its own`)
    const validate = ajv.compile(schema)
    for (const address of addresses[name]!) {
      const response = await fetch(`${url}/v1/dashboard/${address}`)
      const body: unknown = await response.json()
      assert.equal(response.status, 200, `${address}: ${JSON.stringify(body).slice(0, 300)}`)
      assert.ok(validate(body), `${address}: ${JSON.stringify(validate.errors).slice(0, 600)}`)
    }
  }
  const whole = await read<rows.Learning>('learning')
  for (const [name, list] of Object.entries({
    versions: whole.versions,
    branches: whole.branches,
    updates: whole.updates,
    moves: whole.moves,
    freezes: whole.freezes,
    judges: whole.judges,
    curves: whole.subject_curves,
  }))
    assert.ok(list.length > 0, `${name}: what is empty matches any schema`)
})
