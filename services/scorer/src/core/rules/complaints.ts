/**
 * Ways in which people say that an answer should have been otherwise, by what they miss. `judges` are verdicts
 * on the answer ("too long"); `wishes` ask for something ("a bit longer, please") and count only in a clause
 * that is about the answer, since a new request may say the same. Clauses come from text.ts.
 */
export type Complaint =
  | 'formatted'
  | 'unformatted'
  | 'short'
  | 'long'
  | 'cold'
  | 'gushing'
  | 'wrong'
  | 'unclear'
  | 'missed'
  | 'poor'
type ComplaintRules = { judges: readonly RegExp[]; wishes: readonly RegExp[] }

const MARKS =
  '(?:bold\\w*|asterisks?|stars|bullet\\w*|lists?|listing|number(?:ing|ed|(?= (?:things|everything|it|them|each|the)))|numbers in front|enumerat\\w*|itemi[sz]\\w*|box(?:es|ed|ing)?|boxed|frames?|framed|markdown|mark-?up|formatt?ing|formatted|format\\w*|headings?|headers?|headlines?|emphasi\\w*|highlight\\w*|tables?|latex|symbols|markers?|decorat\\w*|ornament\\w*|typograph\\w*|layout|dashes|hash(?:es|tags?)|bullets?|points|steps|italics?|underlin\\w*|styling|special characters|capitals|thick letters|fat letters|curly br\\w+|backslash\\w*|outlines?|1 ?2 ?3)'
const AGAINST =
  '(?:no|not|non|without|stop\\w*|drop\\w*|remov\\w*|skip\\w*|avoid\\w*|less|fewer|lose|leav(?:e|ing) (?:out|off|away)|rid of|cut|too much|too many|so much|so many|all (?:this|that|the|these|those)|hat(?:e|ing)|dislik\\w*|despise|loathe|tired of|sick of|fed up with|enough (?:of|with)|instead of|rather than|quit|ditch|strip\\w*|never|stand|bear|why (?:all|the|so|is|are|do|did|always)|what is (?:with|up with)|what are|need for|want|(?:do|did|does) (?:we|i|you) (?:\\w+ )?need|fan of|spare me|hold the|kill|omit\\w*|forget|toss|free of|minus|allergic to|another|again with|still|tone down|refrain\\w*|ease up|lay off|easy on|scrap|unneeded|unnecessary|needless|pointless|turn off|take (?:out|away|off)|get past|could do without|better without|ban|nix|dispense with|discard|delete|eras\\w+|clear out|done with|keep (?:using|giving|sending|making|putting))'
const BOTHERS =
  '(?:annoy\\w*|bother\\w*|irritat\\w*|distract\\w*|clutter\\w*|ugly|hard(?:er)? (?:to|on)|unreadable|hurts?|mess\\w*|nois[ey]\\w*|unnecessary|needless|unwanted|pointless|not (?:needed|necessary|wanted|render\\w*|work\\w*|show\\w*|display\\w*|help\\w*|for me|my|look\\w*|read\\w*)|pain|too much|overkill|breaks?|driv\\w+ me|in the way|off please|away|gone|look(?:s|ed)? (?:bad|awful|silly|odd|strange|weird|terrible)|confus\\w*|again|is? not|are not|put me off|puts me off|bug me|bugs me|have got to go|has got to go|have to go|has to go|must go|get on my|gets on my|stop|shout\\w*|scream\\w*|chok\\w*|stumbl\\w*|trip\\w*|struggl\\w*|headache\\w*|eyesore|get(?:s)? lost)'
const MUCH =
  '(?:so|very|rather|quite|pretty|awfully|terribly|really|a (?:bit|little|tad|touch)|somewhat|way|bit|far|incredibly|extremely|overly|annoyingly|unusually|little)'
const FEELS = `(?:too|${MUCH}|(?:that |it |this |you |you are |answer |reply |tone |response )(?:is|was|were|are)|sound(?:s|ed|ing)?|fe(?:els?|lt)|seem(?:s|ed)?|c[oa]mes? across(?: as)?|read(?:s)?|being|how|such a|like)`
const FRIENDLY =
  '(?:warm\\w*|friend\\w*|kind(?:ly|ness|er|hearted)?|nice(?:ly|r)?|encourag\\w*|cheer(?:ful|y|ily|fully|ier)?|gentl[ey]\\w*|supportive\\w*|welcoming|polite\\w*|human|personal|caring|enthusias\\w*|sympath\\w*|empath\\w*|upbeat|positiv\\w*|pleasant\\w*|sweet\\w*|lively|personable|amiabl\\w*|cordial\\w*|affectionate\\w*|approachable|inviting|compassionate|tender|uplifting|heartening|reassuring|sociable|hearty|sunny|considerate|playful|soft(?:er|ly)?)'
const WARMTH =
  '(?:warmth|kindness|friendliness|heart|feelings?|empathy|sympathy|encouragement|personality|enthusiasm|cheer\\w*|humanity|human touch|compassion|care|politeness|joy|smiles?|charm|soul|positivity|emotions?|energy|love|tenderness|kind words?|friendly (?:word|note|touch|tone|greeting)|warm (?:words?|tone|greeting|welcome)|greeting|hello|praise|compliments?|support|pep|sunshine|exclamation\\w*|emojis?)'
const DETAIL =
  '(?:detail\\w*|explanations?|information|info|depth|context|words|text|sentences|background|substance|lines|reasoning|material|content|elaboration|paragraphs|description|meat|body|length|to (?:it|read|go on|say)|than (?:that|this|one))'
const COUNT =
  '(?:\\d+|two|three|four|five|six|seven|eight|nine|ten|a dozen|twelve|fifteen|twenty|twenty-five|thirty|forty|fifty|a hundred|hundred|several|a few|some|a couple(?: of)?)'

const any = (...sources: string[]): RegExp[] => sources.map((source) => new RegExp(`\\b(?:${source})`, 'u'))
/** Emojis: no word begins at them, wherever they stand. */
const signs = (...sources: string[]): RegExp => new RegExp(sources.join('|'), 'u')
/** "Great, it crashed.": what the answer led to. */
const FAILS = '(?:fail(?:s|ed)|crash(?:es|ed)|broke|breaks|hangs|hung|err(?:s|ored)|blew up|exploded|died)'
const MADE = '(?:it|that|this|which|everything|(?:the|my) (?:tests?|build|code|script|program|app|command|server|page))'

export const COMPLAINTS: Readonly<Record<Complaint, ComplaintRules>> = {
  formatted: {
    judges: any(
      `${AGAINST}\\b[^,]{0,40}?\\b${MARKS}\\b`,
      `${MARKS}\\b[^,]{0,40}?\\b${BOTHERS}`,
      `${BOTHERS}\\b[^,]{0,30}?\\b${MARKS}`,
      `(?:look|sound|read|talk|writ)\\w* (?:so much |too much |just )?like (?:an? )?(?:ai|machine|chatbot|power ?point|slide\\w*|brochure|spreadsheet|shopping list|recipe|manual)`,
      `(?:leav(?:e|ing)|tak(?:e|ing))\\b[^,]{0,25}?\\b${MARKS}[^,]{0,20}?\\b(?:out|off|away)`,
      'not like an? (?:\\w+ )?(?:slide|machine|manual|list|robot|ai|brochure|textbook)',
      `over-?format\\w*|overly format\\w*|(?:too|so|over) (?:structured|fancy|decorated|styled|ornate)`,
    ),
    wishes: any(
      'plain(?:ly|er)?\\b',
      'unformatted|unstyled|undecorated|unadorned',
      '(?:in |as |of |with |use |write |simple )?prose',
      'just (?:plain |normal |the )?(?:text|words|sentences|letters)',
      '(?:ordinary|normal|regular|simple|running|flowing|continuous|straight|connected|everyday|natural) (?:text|words|sentences?|writing|paragraphs?|language|lines|typing|letters|type)',
      '(?:write|talk|speak|say (?:it|that|this)|answer|reply|type) (?:\\w+ ){0,2}(?:normally|naturally|the normal way|like (?:a |an )?(?:normal |real |ordinary )?(?:person|human|friend|people|someone))',
      '(?:in|as|into|one|single|a) paragraph',
      'clean(?:er)? (?:text|look|up)|raw text|text only|only text|words only|sentences only',
      '(?:simpler|less) (?:formatting|format|layout|style|structure|fancy|fuss)',
      'like a (?:text|note|letter) to',
    ),
  },
  unformatted: {
    judges: any('(?:needs?|lacks?|missing|hard to scan without) (?:\\w+ )?(?:structure|formatting|bullets?|headings?)'),
    wishes: any(
      `(?:as|in|into|make (?:it|that|this)|turn (?:it|that|this) into|give (?:it|that|this) to me as|put (?:it|that|this) (?:in|into|as)|use|with|a) (?:\\w+ ){0,2}(?:bullet\\w*|numbered (?:list|steps)|list|table|bold|headings?|steps)`,
      'step[- ]by[- ]step',
    ),
  },
  short: {
    judges: any(
      `(?:too|${MUCH}) (?:short|brief|terse|little|thin|sparse|vague|skimpy|concise|sketchy|shallow|superficial|minimal\\w*|quick|basic|compact|condensed|laconic|stingy|clipped|bare|meagre|meager|scant\\w*|abrupt)\\b`,
      `not (?:\\w+ )?(?:long|detailed|thorough|complete|full|elaborate|deep|developed) enough|not enough(?: ${DETAIL})?|not (?:very |really |that )?(?:detailed|thorough|informative|long|much of an)`,
      '(?:is|was) (?:that|this|it) (?:all|it)\\b(?! (?:right|wrong|correct|good))|(?:that|this) (?:is|was) (?:all|it) (?:you|i get|there)|all you (?:have|can|got|wrote|know)',
      '(?<!in )(?<!in just )(?<!in only )(?!one word would)one[- ](?:word|liner|line|sentence)(?: answers?| repl\\w+)?',
      `(?:lack\\w*|short on|low on|light on|little|hardly any|barely any|sparing with|stingy with|no real|where is the|where are the|not much) (?:\\w+ ){0,2}${DETAIL}`,
      'such a (?:\\w+ )?(?:short|brief|terse|thin)|how did you (?:get|come|arrive|find|know|work)|insufficient|incomplete|half an answer|half-?finished|skeletal|bare[- ]?bones|barely (?:said|an|any|anything)|hardly (?:an|any|anything)|only (?:\\w+ )?(?:words?|sentence|line)\\b|leaves? (?:me|a lot|out|much)|word count|(?:below|under) (?:the|my) (?:\\w+ )?(?:minimum|limit|length)|(?:not|n) (?:say|tell|explain|give|reveal)(?: me)? (?:much|a lot|enough|anything)|the rest$|too few|so few|under-?developed|unexplained',
    ),
    wishes: any(
      `(?:more|further|extra|additional|greater|added|lots of|plenty of|fuller|longer|better) (?:\\w+ ){0,2}?${DETAIL}`,
      '(?:in|into|with|to) (?:\\w+ )?(?:details?|depth|full)\\b',
      'detailed|elaborat\\w*|expand\\w*|expound|flesh\\w*|longer|lengthier|lengthen\\w*|(?:long|full|extended|complete|detailed) version|fuller|fully|deeper|extend\\w*|stretch (?:it|that|this)|pad (?:it|that)|thorough\\w*|in-depth|at length|comprehensive\\w*|extensive\\w*|generous|wordier|richer|beef (?:it|that|this)? ?up|fill (?:it|that|this)? ?out|build (?:it|that|this) out',
      `(?:at least|minimum(?: of)?|no (?:less|fewer) than|not (?:less|fewer) than|more than|over|upwards of|a good|at a minimum|above) ${COUNT}?[ -]?(?:\\w+ )?(?:words|sentences|lines|paragraphs)`,
      `(?!(?<=in (?:just |only )?|into |within )(?:1|2|two|a couple)\\b)${COUNT} (?:\\w+ )?(?:words|sentences|lines|paragraphs)(?: or more| minimum| at least| or so|\\+| long| please)?`,
      '(?:full|complete|whole|proper|entire|real) (?:sentences?|explanations?|answers?|paragraphs?|repl\\w+|story|picture)',
      '(?:say|tell me|write|give me|need|want\\w*|hop\\w+ for|looking for|expect\\w*|have|add|see|hear|read|love|use|like|offer|share|provide) (?:\\w+ ){0,2}more\\b',
      'more please|more,? please|bit more$|more$',
      'explain (?:more|further|it|that|properly|why|how|your|the|yourself|what)|explanation|explained',
      'go (?:deeper|further|on|into)|carry on|keep going|continue',
      '(?:show|include|give|see|share|with|want) (?:me )?(?:\\w+ )?(?:working|reasoning|thinking|thought process|how you (?:got|get|found|came|worked))',
      'justif\\w*|walk me through|spell (?:it|that|this|things) out|take your time|talk me through|do not hold back|do not be shy|say why|tell me why|(?:give|some|your|the|add)(?: me)?(?: some| your| the| a few| more)? reasons?|back (?:it|that) up|(?:some|a few|a couple of|more) examples|why and how|how and why',
    ),
  },
  long: {
    judges: any(
      `(?:too|${MUCH}) (?:long|wordy|verbose|lengthy|detailed|chatty|talkative|long-?winded|elaborate|rambling|drawn[- ]out|much (?:text|detail|information|info|talk\\w*|to read|explanation))\\b`,
      'too many (?:words|sentences|details|lines|paragraphs)|too much(?: (?:text|detail|information|info|talk\\w*|explanation|chatter))?$',
      'rambl\\w*|wordy|verbose|long-?winded|walls? of text|blah|(?:an? |whole |entire )(?:essay|novel|lecture|speech|sermon)|waffl\\w*|babbl\\w*|tl;? ?dr|(?:get|come|stick|cut|straight) (?:straight |right )?to the (?:point|chase)|beat\\w* (?:around|about) the bush|longer than (?:needed|necessary|i)|bore me|(?:would|will) (?:have been enough|have sufficed|suffice|have done)|(?:not|no) (?:have )?(?:the )?(?:time|patience|energy) (?:to read|for)|(?:fluff|filler|padding|waffle|preamble)',
    ),
    wishes: any(
      'short(?:er|en|ly)|brief(?:er|ly)?\\b|concise\\w*|succinct\\w*|terser?|snappier|crisp\\w*|pithy|tight(?:er|en)|compact',
      '(?:keep|make|be|say) (?:it|this|that|answers?|things|them|repl\\w+)? ?(?:\\w+ )?(?:short|brief|snappy)\\b|short (?:answers?|version|repl\\w+)',
      '(?:less|fewer|not so many|not so much) (?:\\w+ )?(?:text|words|talk\\w*|detail\\w*|sentences|explanation|chatter|information|lines|verb\\w+)',
      '(?:just|only|simply|nothing but) (?:\\w+ )?(?:the|an) (?:\\w+ )?(?:answer|number|result|facts?|essentials?|gist|key|main|name|word)',
      'in (?:just |only )?(?:one|a|a single|two) (?:word|sentence|line|short|few)',
      `(?:at most|no more than|not more than|under|max(?:imum)?(?: of)?|fewer than|less than|within|up to) ${COUNT} (?:\\w+ )?(?:words|sentences|lines)`,
      'condense\\w*|trim\\w*|summari[sz]e|cut (?:it|that|this|the|back|down|out)|boil (?:it|that|this) down|compress|nutshell|skip the (?:\\w+ )?(?:explanation|details?|intro\\w*|pleasantries|fluff|chat|lecture|story)|no (?:need (?:for|to)|explanation|lecture|essay)|(?:not|n) (?:need|ask for|want) (?:the |all |an? )?(?:\\w+ )?(?:explanation|details?|essay|story|lecture|history)|gist|summary',
    ),
  },
  cold: {
    judges: any(
      `${FEELS} (?:\\w+ ){0,3}?(?:cold|unfriendly|robot\\w*|dry|harsh|rude|curt|stiff|distant|impersonal|formal|clinical|mechanical|blunt|lifeless|flat|bland|chilly|frosty|icy|emotionless|detached|abrupt|brusque|grumpy|sterile|soulless|wooden|stern|bureaucratic|businesslike|matter-of-fact|matter of fact|machine|gruff|dull|heartless|aloof|unkind|unwelcoming|discouraging|indifferent|automated|automatic|monoton\\w+|grim|serious|corporate|short with me|computer|textbook|calculator|vending machine|encyclop\\w+|answering machine|tax form|form letter|reading from)`,
      `(?:no|little|not much|zero|lack\\w*|missing|without|where is (?:the|your)|needs?|could (?:use|do with)|not an ounce of|not a (?:bit|trace|hint|shred) of|devoid of|not any|hardly any|not see any|not a single|bit short on|short on) (?:\\w+ ){0,2}${WARMTH}`,
      `not (?:\\w+ ){0,2}(?:warm|friendly|kind|nice|encouraging|polite|welcoming|cheerful|supportive|human|personal|pleasant|inviting|very nice|sound (?:friendly|kind|warm))\\b`,
      `as if you (?:\\w+ )?(?:care|mean|like|enjoy)\\w*|unfriendly|unkind|impolite|robotic|cold-?hearted`,
      `have a heart|(?:talk|speak|chatt|writ)\\w* (?:to|with) (?:a|an) (?:machine|robot|wall|computer|automaton)|be (?:\\w+ )?(?:kind|gentle|sweet|friendly|nice|warm|polite)(?: to (?:me|us|them|him|her))?$|lighten up|loosen up|relax a (?:bit|little)|warm (?:it |that |this )?up|(?<=^)smile|with a smile|do smile|cheer up|be nice\\b|i am (?:a )?(?:human|person)|not a robot`,
    ),
    wishes: any(
      '(?:warm|friendli|kind|nic|gentl|soft|cheeri|sweet|liveli|polit|happi|sunni|tender|perki)er\\b',
      `more (?:\\w+ )?(?:${FRIENDLY}|${WARMTH})`,
      'less (?:\\w+ )?(?:cold|robot\\w*|formal|dry|harsh|stiff|distant|impersonal|clinical|mechanical|blunt|abrupt|serious|stern|like a (?:robot|machine|computer))',
      `(?:be|sound|act|talk|answer|reply|write|speak|say|respond|put|phrase|use|try|in|with|as|treat|address|make|want|like|prefer|keep) (?:\\w+ ){0,4}?${FRIENDLY}\\b`,
      `(?:a|an|some|add|with|bit of|touch of|dash of|hint of|dose of|more|include|show|give me|bring|offer|put|drop in|throw in|start with|begin with|end with) (?:\\w+ ){0,3}?${WARMTH}`,
      `${FRIENDLY} (?:tone|voice|manner|way|words?|touch|note|style|side|version)`,
      'talk to me like (?:a |i am )?(?:a )?(?:friend|person|human)|as a friend|like a friend|say (?:hello|hi|something (?:nice|kind|friendly|warm|encouraging))|encourage me|greet|(?:add|say|include|put|write) something (?:nice|kind|sweet|warm|friendly|encouraging)|root for|cheer (?:me|us|them)|compliment|pat on the back|how you would (?:talk|speak) to a (?:friend|child)',
    ),
  },
  gushing: {
    judges: any(
      `(?:too|overly|annoyingly|excessively) (?:cheerful|friendly|chirpy|enthusiastic|gushing|sugary|cheesy|bubbly|perky|emotional|personal|sweet|over the top)`,
      'over the top|(?:so|too) many (?:emojis|exclamation\\w*)|sycophan\\w*|flatter\\w*|spare me the (?:compliments|pleasantries|praise|flattery)',
    ),
    wishes: any(
      '(?:less|more neutral|tone down the|drop the|skip the|no|without) (?:\\w+ )?(?:cheer\\w*|enthusiasm|emojis?|exclamation\\w*|pleasantries|small talk|flattery|praise|compliments|gush\\w*)',
      '(?:neutral|businesslike|matter-of-fact|sober|professional) (?:tone|style|voice|manner)|(?:stay|be|more) (?:neutral|professional|matter-of-fact|businesslike|sober|serious)',
    ),
  },
  wrong: {
    judges: any(
      'wrong\\w*|incorrect\\w*|untrue|erroneous|inaccura\\w*|mistaken\\w*|mistakes?|miscalculat\\w*|miscount\\w*|mis-?added|misspell\\w*|misstat\\w*|falsehood|false\\b',
      'not (?:\\w+ ){0,2}?(?:right|correct|true|accurate|it$|the (?:right|correct)|how (?:it|that)|what it)',
      '(?:an|your|in|some|that|arithmetic|math|calculation) errors?',
      'nope|nah\\b|no way',
      'no$|no,? (?:it|that|this|the|there|they|she|he|not|you|sorry|i (?:think|mean|believe|get|make|said|meant))\\b',
      '(?:double-?|re-?)?check (?:\\w+ )?(?:that|it|again|your|this|once)|double-?check|recheck|verify (?:that|it|your)',
      '(?:are|were) you (?:\\w+ )?(?:sure|certain|positive)|sure about (?:that|this|it)|is that (?:really )?(?:right|correct|true)',
      'can not be|does not (?:\\w+ )?(?:add up|seem right|look right|sound right|compute|hold)|i doubt (?:that|it)|do not think (?:so|that is|it is|you)|disagree|beg to differ|i (?:think|believe) you (?:meant|mixed|have it)',
      '(?:should|ought to|must|supposed to) (?:have been|be|say|read|equal)\\b(?! (?:more |less |a bit |a little )?(?:able|short|long|plain|warm|friend|kind))',
      'not quite|not exactly|(?:off|out) by|way off|a bit off|slightly off|close,|almost,|nearly,|mixed (?:it |them |that |these )?up|mix-?up|got (?:it|that|this|them) (?:backwards|the wrong|mixed)|the other way (?:a)?round|vice versa',
      '(?:right|correct|actual|real|true|proper) \\w+ (?:is|was|would|should)',
      'recalculat\\w*|recount|recomput\\w*|count (?:them |it )?again|add (?:it|them) (?:up )?again|do the (?:math|sum) again',
      'hallucinat\\w*|made (?:that|it|this) up|invent(?:ed|ing)|lie[sd]?\\b|lying|contradict\\w*|fact-?check',
    ),
    wishes: any('try (?:again|harder|once more)|guess again|think again|look again|have another (?:look|go|think)'),
  },
  unclear: {
    judges: any(
      '(?:do|did|can|could|still) not (?:\\w+ )?(?:understand|follow|grasp|get (?:it|that|this|what|how)|see (?:how|why|what)|make sense)',
      'confus\\w*|unclear|not (?:\\w+ )?clear\\b|lost me|you lost me|i am (?:\\w+ )?lost|makes? no sense|huh$|what do you mean|what does (?:that|this|it) mean|supposed to mean|too (?:complicated|complex|technical|hard|difficult|abstract|dense|advanced)|jargon|over my head|gibberish|incomprehensib\\w*|incoheren\\w*|unintelligib\\w*|hard to (?:follow|understand|read)|murky|cryptic',
    ),
    wishes: any(
      '(?:simpler|easier|plainer|clearer|simple|easy|plain|everyday) (?:words|terms|way|language|english|explanation)|simplif\\w*|more (?:clearly|simply)|clearer|clarif\\w*|eli5|like i am (?:five|5)|for a (?:child|kid|beginner)|dumb (?:it|that|this) down|in (?:layman|lay)',
    ),
  },
  missed: {
    judges: any(
      '(?:not|never) (?:\\w+ ){0,2}?(?:what|how|the way|the thing|the one) i (?:\\w+ )?(?:ask\\w*|want\\w*|mean|meant|said|need\\w*|had in mind|look\\w*|was|request\\w*|hop\\w*|expect\\w*|like)',
      'i (?:\\w+ )?(?:asked|meant|told you|specified|requested|wanted|was asking|said|mentioned)\\b',
      '(?:did|do|does|are|were|have) not (?:\\w+ )?(?:answer\\w*|address\\w*|listen\\w*|read|follow\\w*|respond\\w*|stick|pay)',
      'answer (?:the|my) (?:actual |real )?question|mis(?:understood|understand\\w*|read|interpret\\w*)|irrelevant|off[- ]topic|beside the point|miss(?:ed|es|ing)? (?:the|my) (?:point|question)|you (?:\\w+ )?(?:forgot|left out|omitted|skipped|missed|ignored|keep|always|overlooked|dodged|avoided)|as i (?:\\w+ )?(?:said|asked|told|mentioned)|like i (?:said|asked|told)|how (?:many times|often) (?:do|must|should)|already (?:told|said|asked)|once more|one more time|for the (?:second|third|last|hundredth|umpteenth) time|i repeat|not paying attention|again,? (?:i|you|please)|please read|nothing to do with',
    ),
    wishes: any('stick to (?:the|my)|stay on topic|focus on|pay attention|read (?:it|my|the) (?:\\w+ )?again|listen'),
  },
  poor: {
    judges: [
      signs('👎', '😡', '😠', '🙄', '😞', '😕', '☹', '😒', '💔', '😤', '🤦', '😑', '😐', '😩', '😣', '🥱', '🤨', '😬'),
      ...any(
        `${MADE} (?:\\w+ ){0,2}?${FAILS}\\b`,
        `(?:now|and) (?:it )?${FAILS}\\b`,
        '(?:another|a new|the same|still an?) (?:error|crash|exception|failure|bug)\\b',
        'thumbs?[- ]?down\\b|down-?vot\\w*',
        'bad(?:ly)?\\b|terribl[ey]|awful\\w*|horribl[ey]|useless|unhelpful|poor(?:ly)?\\b|worse|worst|disappoint\\w*|annoying|annoyed|ugh|nonsense|rubbish|garbage|trash|stupid|dumb|meh\\b|lame\\b|pathetic|lousy|unacceptable|unsatisf\\w*|dissatisf\\w*|unsuitable|weak answer|inadequate|frustrat\\w*|yikes|yuck|boo\\b|crap\\w*|sucks?|wtf|ridiculous|waste of (?:my )?time|hopeless|mediocre|subpar|sloppy|lazy|clumsy|(?:no|little|not much|not of (?:much|any)) (?:\\w+ )?(?:good|use|help)\\b|not useful',
        'not (?:\\w+ ){0,2}?(?:good|great|helpful|useful|ok|okay|enough|happy|impressed|satisfied|ideal|perfect|acceptable|working|my (?:thing|taste|style|cup)|for me|a fan|nice|keen|there yet|do it for me|help|cut it|do the trick|work|pleased|thrilled|convinced|appealing|suit|satisf\\w*|ready|usable|fine|meet)\\b',
        '(?<=^)(?:it|that|this) (?:is|was) not\\b(?! (?:a problem|necessary|needed|important|urgent|for))',
        'do better|could be better|can be better|expected better|deserve better|room for improvement|needs (?:work|improvement|another)|leaves much to be desired',
        '(?:do|did) not (?:\\w+ )?(?:like|love|enjoy|care for|appreciate|help|work)\\b|(?:hate|dislike)\\b|(?:hate|dislike|detest)',
        '(?:would|could|might) (?:\\w+ )?(?:be|read|look|sound|work) (?:\\w+ )?(?:nicer|better|great|nice|good|lovely|perfect|easier|clearer|best|ideal|more) (?:if|with|without|as|to|when|in|for|like|had)',
        'i (?:would|will|still|really|do|much)? ?(?:\\w+ )?(?:have (?:liked|loved|wanted|hoped)|prefer\\w*|rather (?:have|you|see|read|not)|wish)\\b|rather you|if only you|wish (?:you|it|that)',
        '^(?:sigh|groan|argh|grr+)',
      ),
    ],
    wishes: any(
      'redo|rewrite|rephrase|reword|rework|revise|reformulat\\w*|retry|restate|regenerate|reconsider|rethink|start over|from scratch',
      '(?:try|do|write|say|answer|explain|put|phrase|tell|give|repeat|word) (?:\\w+ ){0,5}?(?:again|over|differently|another way|once more|afresh|anew|one more time|otherwise)\\b',
      '(?:another|second|one more|different|new|fresh|better) (?:try|attempt|go|shot|version|wording|answer|approach|take|phrasing)|same (?:thing|answer|text)\\b|change (?:it|that|this|your|the)|fix (?:it|that|this|your|the)|improve|adjust|amend|correct (?:it|that|this|your)',
      'please (?:stop|do not)|stop \\w+ing|do not (?:ever|always|keep|just|give|use|write|answer|start|send|do|be|talk|say|make|put)|next time|from now on|in (?:the )?future|going forward|henceforth|in subsequent|instead\\b|(?:could|can|would|will) you (?:please )?not|try to\\b|remember (?:to|that)|learn to|get used to',
    ),
  },
}
