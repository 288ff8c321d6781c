import { binary } from './binary.ts'
import { hybrid } from './hybrid.ts'
import { memory } from './memory.ts'
import { none } from './none.ts'
import { opd } from './opd.ts'
import { skills } from './skills.ts'
import type { Method } from './method.ts'

export const METHODS: readonly Method[] = [none, memory, skills, ...binary, ...opd, ...hybrid]
