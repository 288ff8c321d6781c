import { noNote, type Method } from './method.ts'

const learned = { loss: 'opd', note: noNote } as const

export const opd: readonly Method[] = [
  { ...learned, name: 'opd', separate: false, byDefault: true, summary: 'hints alone, one adapter for all' },
  {
    ...learned,
    name: 'opd-separate',
    separate: true,
    byDefault: false,
    summary: 'hints alone, one adapter for each person',
  },
]
