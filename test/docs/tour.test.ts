/** The tour of README.md, run as printed except for the address. */
import { deepEqual, equal, ok } from 'node:assert/strict'
import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { folder, instar } from '../kit/cli.ts'
import { ROOT } from '../../tools/tree.ts'

const bash = ['bash', 'curl', 'seq', 'grep'].every((program) => spawnSync(program, ['--version']).status === 0)

const [, tour = ''] = /^## Tour[^\n]*\n([\s\S]*?)^## /m.exec(readFileSync(join(ROOT, 'README.md'), 'utf8')) ?? []
const blocks = [...tour.matchAll(/^```(\w*)\n([\s\S]*?)^```$/gm)].map(([, language, text]) => ({
  language,
  text: text!,
}))

const left: ChildProcess[] = []
after(() => left.forEach((child) => child.kill('SIGKILL')))

/** The pipeline as a process; resolves with its URL when it is ready. */
const start = async (data: string): Promise<string> => {
  const args = [join(ROOT, 'cli/instar.cjs'), 'up', '--port', '0', '--data', data, '--json']
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  left.push(child)
  let out = ''
  return new Promise<string>((resolve, reject) => {
    child.stdout.on('data', (text: Buffer) => {
      out += text.toString()
      const line = out.split('\n').find((one) => one.startsWith('{"url"'))
      if (line) resolve(new URL((JSON.parse(line) as { url: string }).url).origin)
    })
    void once(child, 'exit').then(() => reject(new Error(`ended before it was up: ${out}`)))
  })
}

type Version = { version: number; parent: number | null; status: string; trained_turns: number | null }

test(
  'the tour of README.md publishes version 1 after 16 rated answers and serves version 0 after the rollback',
  { skip: !bash },
  async () => {
    const data = folder()
    const url = await start(data)
    const env = { INSTAR_DATA: data, INSTAR_PORT: new URL(url).port }
    const script = blocks.filter(({ language }) => language === 'sh').map(({ text }) => text)
    equal(script.length, 2)
    const shell = spawn('bash', ['-c', script.join('\n').replaceAll('http://127.0.0.1:30000', url)], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    let said = ''
    shell.stdout.on('data', (text: Buffer) => (said += text.toString()))
    deepEqual(await once(shell, 'close'), [0, null])
    ok(/^\{"id":"chatcmpl-[a-z0-9]+",.*"role":"assistant","content":"/.test(said), said)

    const versions = async (): Promise<Version[]> => (await instar(['versions', '--json'], env)).json as Version[]
    let list = await versions()
    for (const until = Date.now() + 60_000; list.length < 2 && Date.now() < until; list = await versions())
      await pause(100)
    deepEqual(
      list.map(({ version, parent, status, trained_turns }) => [version, parent, status, trained_turns]),
      [
        [0, null, 'superseded', null],
        [1, 0, 'serving', 16],
      ],
    )

    const shown = blocks.filter(({ language }) => language === '').map(({ text }) => text.trimEnd().split('\n'))
    const [table, commands] = shown
    const header = (await instar(['versions'], env)).out.split('\n')[0]
    deepEqual([table![0], table![1]!.split(/\s{2,}/)], ['$ npx instar versions', header!.split(/\s{2,}/)])
    for (let line = 0; line < commands!.length; line += 2) {
      const { code, out } = await instar(commands![line]!.replace('$ npx instar ', '').split(' '), env)
      deepEqual([code, out.trimEnd()], [0, commands![line + 1]])
    }
    deepEqual(
      (await versions()).map(({ status }) => status),
      ['serving', 'rolled_back'],
    )
  },
)
