/** PyTorch in a child process, installed into .cache/torch for the bench. */
import { spawn, spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'

const TORCH = 'torch==2.15.0'

/** `fastest`: seconds of the fastest decode or train step. */
export type DecodeReply = { seconds: number; fastest: number; ids: number[][] }
export type TrainReply = { seconds: number; fastest: number; loss: number; gradNorm: number }
/** `request`: call it for one request at a time. */
export type Peer = { version: string; request(message: Record<string, unknown>): Promise<unknown>; stop(): void }

/**
 * Returns the path of a Python with PyTorch; installs it at first use (downloads a few GB). Null, with the reason
 * logged, if that fails.
 */
const install = (folder: string, logLine: (line: string) => void): string | null => {
  const python = join(folder, process.platform === 'win32' ? 'Scripts/python.exe' : 'bin/python')
  const imports = (): boolean => spawnSync(python, ['-c', 'import torch, numpy'], { timeout: 120_000 }).status === 0
  if (existsSync(python) && imports()) return python
  logLine(`installing ${TORCH} into ${folder} …`)
  const steps: [string, string[]][] = [
    ['python3', ['-m', 'venv', folder]],
    [python, ['-m', 'pip', 'install', '--quiet', TORCH, 'numpy']],
  ]
  for (const [command, args] of steps) {
    const { status, stderr, error } = spawnSync(command, args, { timeout: 1_800_000, encoding: 'utf8' })
    if (status === 0) continue
    logLine(
      `PyTorch cannot be installed and is left out: ${command} ${args.join(' ')}: ${error?.message ?? stderr.trim().split('\n').at(-1)}`,
    )
    return null
  }
  if (imports()) return python
  logLine('PyTorch was installed but cannot be imported, and is left out')
  return null
}

/** Null, with the reason logged, if PyTorch cannot be installed. */
export const startTorch = async (folder: string, logLine: (line: string) => void): Promise<Peer | null> => {
  const python = install(folder, logLine)
  if (python === null) return null
  const child = spawn(python, [join(import.meta.dirname, 'torch_policy.py')], { stdio: ['pipe', 'pipe', 'inherit'] })
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  return {
    version: TORCH.replace('==', ' '),
    async request(message) {
      child.stdin.write(`${JSON.stringify(message)}\n`)
      const { value, done } = await lines.next()
      if (done) throw new Error('the PyTorch process has ended without a reply')
      return JSON.parse(value) as unknown
    },
    stop: () => {
      child.stdin.end()
    },
  }
}
