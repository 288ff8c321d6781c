/**
 * Whether the base weights judge well enough to be a line's judge: they and the reactions judge judge the same labelled
 * cases.
 */

/** `value` of a judge: 1, −1, or null for no opinion. `truth` 0: the reaction says nothing about the answer. */
export type JudgedCase = { truth: number; self: number | null; reactions: number | null }

/** Of ±1. Precision of a judge without opinions is 0. */
export type JudgeFigures = { precision: number; recall: number }

/** `judged`: cases judged in time; fewer than `cases` is too slow for a judge. */
export type Calibration = {
  choice: 'self' | 'reactions'
  cases: number
  judged: number
  seconds: number
  self: JudgeFigures
  reactions: JudgeFigures
}

const share = (part: number, whole: number): number => (whole === 0 ? 0 : Number((part / whole).toFixed(3)))

export const figuresOf = (judged: readonly { truth: number; value: number | null }[]): JudgeFigures => {
  const opinions = judged.filter(({ value }) => value !== null)
  const right = opinions.filter(({ truth, value }) => Math.sign(value!) === truth).length
  return {
    precision: share(right, opinions.length),
    recall: share(right, judged.filter(({ truth }) => truth !== 0).length),
  }
}

/**
 * The base judges where all cases were judged in time, and its precision and its recall of ±1 are above those of the
 * reactions judge; a precision of 1 counts as above.
 */
export const calibrated = (judged: readonly JudgedCase[], cases: number, seconds: number): Calibration => {
  const self = figuresOf(judged.map(({ truth, self: value }) => ({ truth, value })))
  const reactions = figuresOf(judged.map(({ truth, reactions: value }) => ({ truth, value })))
  const isBetter =
    judged.length === cases &&
    self.recall > reactions.recall &&
    (self.precision > reactions.precision || self.precision === 1)
  return {
    choice: isBetter ? 'self' : 'reactions',
    cases,
    judged: judged.length,
    seconds: Math.round(seconds),
    self,
    reactions,
  }
}

const figuresText = ({ precision, recall }: JudgeFigures): string =>
  `precision ${precision.toFixed(2)}, recall ${recall.toFixed(2)}`

export const calibrationText = ({ choice, cases, judged, seconds, self, reactions }: Calibration): string => {
  const figures = judged === 0 ? '' : `: base ${figuresText(self)}; reactions ${figuresText(reactions)}`
  const measured = `${judged} of ${cases} labelled cases in ${seconds} s${figures}`
  return choice === 'self'
    ? `The base weights judge turns on this line (${measured}).`
    : `The reactions judge judges turns on this line: the base weights are ${judged < cases ? 'too slow' : 'not better'} (${measured}).`
}
