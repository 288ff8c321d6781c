/**
 * Adds to the demo's history, which only rises, what else the dashboard shows: a version that a person goes back from, a
 * freeze, a branch of a replay, an update that the gate rejects, and versions that grow from what people say afterwards.
 */
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { up } from '../kit/up.ts'
import { branched, cli, converse, poster, until } from './rig.ts'

type Started = Awaited<ReturnType<typeof up>>
type Version = { version: number; status: string }
type Update = { status: string }

export const BRANCH = 'gentler'

/** Leaves a folder that has such a history as it is. */
export const addEvents = async (data: string): Promise<void> => {
  let started: Started = await up(data)
  const url = (): string => started.ready.url
  const restart = async (settings: object | null): Promise<void> => {
    started.child.kill('SIGTERM')
    await started.ended
    if (settings === null) delete process.env['INSTAR_SETTINGS']
    else process.env['INSTAR_SETTINGS'] = JSON.stringify(settings)
    started = await up(data)
  }
  const read = async <T>(address: string): Promise<T> =>
    (await (await fetch(`${url()}/v1/dashboard/${address}`)).json()) as T
  const command = async (name: string, who: string, body: object): Promise<void> => {
    const token = (await readFile(path.join(data, 'admin.token'), 'utf8')).trim()
    const response = await fetch(`${url()}/admin/${name}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${token}`, 'x-instar-who': who },
      body: JSON.stringify(body),
    })
    if (!response.ok) throw new Error(`${name}: ${response.status} ${await response.text()}`)
  }
  const post = poster(url)
  const updates = async (status: string): Promise<number> =>
    (await read<{ updates: Update[] }>('versions')).updates.filter((one) => one.status === status).length
  /** People talk until one more update has that end. */
  const talk = async (user: string, status: 'accepted' | 'rejected'): Promise<void> => {
    const before = await updates(status)
    await converse(post, user)
    await until<{ updates: Update[] }>(
      url(),
      'versions',
      (found) => found.updates.filter((one) => one.status === status).length > before,
    )
  }
  try {
    await until<{ versions?: Version[] }>(url(), 'versions', ({ versions }) => (versions?.length ?? 0) > 1)
    if ((await updates('rejected')) > 0) return
    const { head } = await read<{ head: number }>('now')
    await command('rollback', 'Ann', { version: head - 2, why: 'Answers became too wordy' })
    await command('thaw', 'Ann', { why: 'Version 10 answers well again' })
    await talk('Ann', 'accepted')
    await cli(started.env, 'replay', '--branch', BRANCH, '--set', 'lr=0.0005', '--json')
    await branched(url(), BRANCH)
    await restart({ gate: { klParent: 0 } })
    await talk('Ben', 'rejected')
    await restart(null)
    await command('freeze', 'Ben', { why: 'Nobody is in over the weekend' })
    await command('thaw', 'Ben', { why: 'Back again' })
    await talk('Cleo', 'accepted')
  } finally {
    delete process.env['INSTAR_SETTINGS']
    started.child.kill('SIGTERM')
    await started.ended
  }
}
