/**
 * How many probes must fall for a rejection. The base fails `failed` of `answers` fresh answers to its probes; a model
 * that has lost nothing fails each of `probes` probes at the same unknown rate. With a uniform prior of that rate the
 * number of falls has a beta-binomial distribution (Skellam 1948), which holds for few `answers` as well. Rates that
 * differ between probes only make large numbers of falls less likely (Hoeffding 1956, theorem 4).
 */

/** The largest probability with which a model that has lost nothing is rejected, per verdict. */
export const FALSE_REJECTION = 1 / 1000

/** `answers`: fresh answers of the base; `failed`: those that were wrong. */
export type Noise = { answers: number; failed: number }

const logFactorial = (n: number): number => {
  let sum = 0
  for (let i = 2; i <= n; i += 1) sum += Math.log(i)
  return sum
}
/** log B(a, b) of positive integers. */
const logBeta = (a: number, b: number): number => logFactorial(a - 1) + logFactorial(b - 1) - logFactorial(a + b - 1)

/** P(falls = k), for k = 0…probes. */
export const fallProbabilities = (probes: number, { answers, failed }: Noise): number[] => {
  const [a, b] = [failed + 1, answers - failed + 1]
  return Array.from({ length: probes + 1 }, (_, k) =>
    Math.exp(
      logFactorial(probes) -
        logFactorial(k) -
        logFactorial(probes - k) +
        logBeta(k + a, probes - k + b) -
        logBeta(a, b),
    ),
  )
}

/**
 * The smallest number of falls whose probability, or that of more, is at most FALSE_REJECTION; `probes` + 1: none is.
 */
export const fallsToReject = (probes: number, noise: Noise): number => {
  let tail = 0
  const probabilities = fallProbabilities(probes, noise)
  for (let k = probes; k >= 0; k -= 1) {
    tail += probabilities[k]!
    if (tail > FALSE_REJECTION) return k + 1
  }
  return 0
}
