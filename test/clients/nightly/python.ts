/** The agents that are Python programs, with their dependencies as python.txt locks them. */
import { fileURLToPath } from 'node:url'
import { pythonPrograms } from '../../kit/python.ts'

export const MINI = '2.4.6'
export const AIDER = '0.86.2'

/** The folder of their programs. */
export const pythonAgents = (): string =>
  pythonPrograms({
    name: 'python-agents',
    packages: [`mini-swe-agent==${MINI}`, `aider-chat==${AIDER}`],
    locked: fileURLToPath(new URL('python.txt', import.meta.url)),
    from: 10,
    to: 12,
  })
