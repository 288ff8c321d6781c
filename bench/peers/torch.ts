/** PyTorch in a process of its own, installed for the bench alone into .cache/torch. */
import { spawn, spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'

const TORCH = 'torch==2.15.0'

/** `fastest`: of one decode or train step. */
export type DecodeReply = { seconds: number; fastest: number; ids: number[][] }
export type TrainReply = { seconds: number; fastest: number; loss: number; gradNorm: number }
export type Peer = { version: string; ask(request: Record<string, unknown>): Promise<unknown>; stop(): void }

/** The Python of a folder with PyTorch, made on first use (a few GB are fetched); null, with the reason said, where that fails. */
const install = (folder: string, say: (line: string) => void): string | null => {
  const python = join(folder, process.platform === 'win32' ? 'Scripts/python.exe' : 'bin/python')
  const imports = (): boolean => spawnSync(python, ['-c', 'import torch, numpy'], { timeout: 120_000 }).status === 0
  if (existsSync(python) && imports()) return python
  say(`installing ${TORCH} into ${folder}, for the bench alone …`)
  const steps: [string, string[]][] = [
    ['python3', ['-m', 'venv', folder]],
    [python, ['-m', 'pip', 'install', '--quiet', TORCH, 'numpy']],
  ]
  for (const [command, words] of steps) {
    const { status, stderr, error } = spawnSync(command, words, { timeout: 1_800_000, encoding: 'utf8' })
    if (status === 0) continue
    say(
      `no PyTorch here, so no peer: ${command} ${words.join(' ')}: ${error?.message ?? stderr.trim().split('\n').at(-1)}`,
    )
    return null
  }
  if (imports()) return python
  say('no PyTorch here, so no peer: it was installed and does not load')
  return null
}

/** One request at a time. */
export const startTorch = async (folder: string, say: (line: string) => void): Promise<Peer | null> => {
  const python = install(folder, say)
  if (python === null) return null
  const child = spawn(python, [join(import.meta.dirname, 'torch_policy.py')], { stdio: ['pipe', 'pipe', 'inherit'] })
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  return {
    version: TORCH.replace('==', ' '),
    async ask(request) {
      child.stdin.write(`${JSON.stringify(request)}\n`)
      const { value, done } = await lines.next()
      if (done) throw new Error('the PyTorch process has ended')
      return JSON.parse(value) as unknown
    },
    stop: () => {
      child.stdin.end()
    },
  }
}
