/** The cases of the gateway bench and their names. */
import type { Size } from './prompts.ts'

/** `kind`: of the load, a closed or an open loop. */
export type Case = { size: Size; stream: boolean; kind: 'closed' | 'open' }

export const LOOPS: Readonly<Record<Case['kind'], string>> = { closed: 'closed loop', open: 'open loop' }

/** The kind of request, without the load. */
const requestName = ({ size, stream }: Pick<Case, 'size' | 'stream'>): string =>
  `${size}, ${stream ? 'stream' : 'whole'}`

export const caseName = (one: Case): string => `${requestName(one)}, ${LOOPS[one.kind]}`
