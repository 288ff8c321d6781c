import { noNote, type Method } from './method.ts'

const learned = { loss: 'hybrid', note: noNote } as const

export const hybrid: readonly Method[] = [
  { ...learned, name: 'hybrid', separate: false, byDefault: true, summary: 'rewards and hints, one adapter for all' },
  {
    ...learned,
    name: 'hybrid-separate',
    separate: true,
    byDefault: true,
    summary: 'rewards and hints, one adapter for each person',
  },
]
