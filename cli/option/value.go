package option

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"remshell/hostlist"
	"remshell/job"
)

// maxNumber is the largest count that an option accepts. No machine runs more than 16 million ranks.
const maxNumber = 1 << 24

// parseNumber parses a decimal number of at most maxNumber (rule CLI-7).
func parseNumber(text string) (int, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange) || err == nil && n > maxNumber:
		return 0, fmt.Errorf("%s is too large; the largest value is %d", text, maxNumber)
	case err != nil || text[0] == '+':
		return 0, fmt.Errorf("%q is not a number", text)
	}
	return int(n), nil
}

// atLeast returns an error if n is smaller than minimum.
func atLeast(minimum, n int) error {
	if n < minimum {
		return fmt.Errorf("%d is too small; the smallest value is %d", n, minimum)
	}
	return nil
}

// isZeroNumber reports whether value is the number zero with any number of digits, such as 0 or 00.
func isZeroNumber(value string) bool {
	return value != "" && strings.Trim(value, "0") == ""
}

// QueueWait is the value of --wait: "yes", "no", or the maximum time to wait in the queue.
type QueueWait struct {
	Text  string        // as given, in lower case; empty: not given
	Limit time.Duration // 0: no limit
}

func (w *QueueWait) UnmarshalText(text []byte) (err error) {
	*w = QueueWait{Text: strings.ToLower(string(text))}
	if w.Text == "yes" || w.Text == "no" {
		return nil
	}
	w.Limit, err = parseSeconds(string(text))
	if err == nil && w.Limit == 0 {
		err = fmt.Errorf("%q is too short; the time must be longer than 0", text)
	}
	return err
}

func (w QueueWait) String() string { return w.Text }

// Seconds is a length of time, written as seconds (90, 0.5), with units
// (1h30m, 5min), or as hours, minutes and seconds (01:30:00).
type Seconds time.Duration

func (s Seconds) Duration() time.Duration { return time.Duration(s) }

// A PortRange is a range of TCP ports. The zero value means any port.
type PortRange struct{ Low, High uint16 }

// UnmarshalText parses LOW:HIGH, as in MPICH, or LOW-HIGH.
func (r *PortRange) UnmarshalText(text []byte) error {
	low, high, two := strings.Cut(strings.Replace(string(text), "-", ":", 1), ":")
	first, err := strconv.ParseUint(low, 10, 16)
	last, err2 := strconv.ParseUint(high, 10, 16)
	if !two || err != nil || err2 != nil || first == 0 || last < first {
		return fmt.Errorf("%q is not a range of ports such as 40000:40100", text)
	}
	*r = PortRange{uint16(first), uint16(last)}
	return nil
}

func (s *Seconds) UnmarshalText(text []byte) error {
	d, err := parseSeconds(string(text))
	*s = Seconds(d)
	return err
}

func parseSeconds(text string) (time.Duration, error) {
	const most = 10 * 365 * 24 * time.Hour
	bad := fmt.Errorf("%q is not a time such as 90, 1h30m or 01:30:00", text)
	text = strings.NewReplacer("mins", "?", "min", "m").Replace(text) // 5mins is neither 5m nor 5ms
	if strings.Trim(text, "0123456789.:hmsu") != "" {
		return 0, bad
	}
	var d time.Duration
	if parts := strings.Split(text, ":"); len(parts) == 3 {
		for i, limit := range []int{math.MaxInt32, 59, 59} {
			n, err := strconv.Atoi(parts[i])
			if err != nil || n > limit || i > 0 && len(parts[i]) != 2 {
				return 0, bad
			}
			d = d*60 + time.Duration(n)*time.Second
		}
	} else if f, err := strconv.ParseFloat(text, 64); err == nil {
		d = time.Duration(min(f, 2*most.Seconds()) * float64(time.Second))
	} else if d, err = time.ParseDuration(text); err != nil {
		return 0, bad
	}
	if d > most {
		return 0, fmt.Errorf("%s is too long; the longest time is ten years", text)
	}
	return d, nil
}

// ShellWords are the words into which a shell would split a value.
type ShellWords []string

func (w *ShellWords) UnmarshalText(text []byte) error {
	words, err := shellSplit(string(text))
	if err == nil && len(words) == 0 {
		err = errors.New("the value is empty")
	}
	*w = words
	return err
}

// shellSplit splits text at blanks. Quotes and backslashes work as in sh, but nothing is expanded.
func shellSplit(text string) ([]string, error) { return splitWords(text, false) }

// splitWords splits text like shellSplit. If comments is true, a # at the start of a word begins a comment, which is
// ignored.
func splitWords(text string, comments bool) ([]string, error) {
	var words []string
	var word strings.Builder
	quote, inside := byte(0), false
	for i := 0; i < len(text); i++ {
		b := text[i]
		if comments && b == '#' && !inside && quote == 0 {
			break
		}
		switch {
		case quote != 0 && b == quote:
			quote = 0
		case b == '\\' && quote != '\'' && i+1 < len(text):
			i++
			if quote == '"' && !strings.ContainsRune("\"\\$`", rune(text[i])) {
				word.WriteByte('\\')
			}
			word.WriteByte(text[i])
			inside = true
		case quote != 0:
			word.WriteByte(b)
		case b == '\'' || b == '"':
			quote, inside = b, true
		case b == ' ' || b == '\t' || b == '\n':
			if inside {
				words = append(words, word.String())
				word.Reset()
			}
			inside = false
		default:
			word.WriteByte(b)
			inside = true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("the quote %c is opened but not closed", quote)
	}
	if inside {
		words = append(words, word.String())
	}
	return words, nil
}

// An EnvVar is a variable to set for the ranks, or to pass on from mpiexec's environment.
type EnvVar struct {
	Name, Value string
	Inherited   bool // no value was given: pass on mpiexec's; Name may end in "*"
}

func (v *EnvVar) UnmarshalText(text []byte) error {
	name, value, given := strings.Cut(string(text), "=")
	*v = EnvVar{name, value, !given}
	stem := name
	if v.Inherited {
		stem = strings.TrimSuffix(name, "*")
	}
	if name == "" || strings.ContainsAny(stem, "* \t\n") {
		return fmt.Errorf("%q is not the name of an environment variable", name)
	}
	return nil
}

// EnvImport is the list of variables that mpiexec passes on from its own environment.
type EnvImport struct {
	Given bool
	Names []string // "PRE_*" is a prefix, "*" means all; empty: none is passed on
}

func (e *EnvImport) UnmarshalText(text []byte) error {
	*e = EnvImport{Given: true}
	if len(text) == 0 {
		return nil
	}
	e.Names = strings.Split(string(text), ",")
	for _, name := range e.Names {
		if name == "" || strings.ContainsAny(strings.TrimSuffix(name, "*"), "*= \t\n") {
			return fmt.Errorf("%q is not the name of an environment variable, or a prefix such as PRE_*", name)
		}
	}
	return nil
}

// A DisplayList is the value of --display: a list of displayWords.
type DisplayList []string

// Displays reports whether the value of --display contains one of these keywords.
func (j JobOptions) Displays(words ...string) bool {
	return slices.ContainsFunc(slices.Concat(j.Display...), func(word string) bool { return slices.Contains(words, word) })
}

// Choices returns the allowed keywords.
func (DisplayList) Choices() []string { return displayWords }

func (p *DisplayList) UnmarshalText(text []byte) error {
	*p = strings.Split(strings.ToLower(string(text)), ",")
	for _, word := range *p {
		if !slices.Contains(displayWords, word) {
			return fmt.Errorf("%q is not one of %s", word, strings.Join(displayWords, ", "))
		}
	}
	return nil
}

// displayWords are the keywords that --display accepts. alloc and bind are Open MPI's names for allocation and for
// --report-bindings.
var displayWords = []string{"map", "map-devel", "topo", "allocation", "alloc", "bind"}

// A HostExpr is the value of one -host option.
type HostExpr []hostlist.Entry

func (h *HostExpr) UnmarshalText(text []byte) error {
	entries, err := hostlist.ParseRelative("-host", string(text))
	*h = entries
	return err
}

// HostNames is a list of host names without slots or users.
type HostNames []string

func (h *HostNames) UnmarshalText(text []byte) error {
	names, err := hostlist.Expand(string(text))
	*h = names
	return err
}

// An SSHOption is the KEY=VALUE of --ssh-option, in the syntax of ssh's option -o.
type SSHOption string

func (o *SSHOption) UnmarshalText(text []byte) error {
	key, value, found := strings.Cut(string(text), "=")
	if !found || key == "" || strings.Trim(key, letters) != "" || strings.TrimSpace(value) == "" || strings.ContainsAny(value, "\n\r") {
		return errors.New("the value must have the form KEY=VALUE, such as Port=2222")
	}
	*o = SSHOption(text)
	return nil
}

const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

// A GPUCount is the number of GPUs for each rank. As in job.RankNeeds, 0 means that the option was not given,
// and job.NoGPUs means no GPUs.
type GPUCount int

func (c *GPUCount) UnmarshalText(text []byte) error {
	n, err := parseNumber(string(text))
	if err == nil {
		err = atLeast(0, n)
	}
	if *c = GPUCount(n); n == 0 {
		*c = job.NoGPUs
	}
	return err
}

func (c GPUCount) String() string { return strconv.Itoa(max(0, int(c))) }

// RestartCount is the value of --restart: how many times a job is restarted. The value may also be "always" or "no".
type RestartCount struct {
	Text  string // as given, in lower case; empty: not given
	Count int    // job.UnlimitedRestarts for "always"
}

// Choices returns the keywords that are allowed in place of a number.
func (RestartCount) Choices() []string { return []string{"always", "no"} }

func (r *RestartCount) UnmarshalText(text []byte) (err error) {
	*r = RestartCount{Text: strings.ToLower(string(text))}
	switch r.Text {
	case "no":
	case "always":
		r.Count = job.UnlimitedRestarts
	default:
		if r.Count, err = strconv.Atoi(r.Text); err != nil || r.Count < 1 || r.Count > 1<<20 {
			err = fmt.Errorf("%q is neither a positive number nor one of the words \"always\" and \"no\"", text)
		}
	}
	return err
}

func (r RestartCount) String() string { return r.Text }

// RestartEnds is the value of --restart-on. It says after which kinds of failure a job is restarted, as in
// "node,code:85,100-110".
type RestartEnds struct {
	Text  string
	Kinds []job.EndKind
	Codes []int // exit codes for the kind code; nil: all but 0
}

// Choices returns the allowed keywords.
func (RestartEnds) Choices() []string {
	words := []string{"any"}
	for _, kind := range job.EndKinds {
		words = append(words, string(kind))
	}
	return words
}

// UnmarshalText parses a list of keywords and exit codes. A number belongs to the keyword "code:" before it.
func (r *RestartEnds) UnmarshalText(text []byte) error {
	*r = RestartEnds{Text: string(text)}
	numbers := false
	for word := range strings.SplitSeq(strings.ToLower(r.Text), ",") {
		kind, list, colon := strings.Cut(word, ":")
		switch {
		case numbers && !colon && strings.Trim(word, "0123456789-") == "":
			list = word
		case kind == "any" && !colon:
			r.Kinds = append(r.Kinds, job.EndKinds...)
			continue
		case !slices.Contains(job.EndKinds, job.EndKind(kind)) || colon && kind != string(job.EndByExitCode):
			return fmt.Errorf("%q is not one of node, signal, abort, code, code:LIST, start, any", word)
		default:
			r.Kinds = append(r.Kinds, job.EndKind(kind))
		}
		if numbers = colon || list == word; numbers {
			codes, err := exitCodes(list)
			if err != nil {
				return err
			}
			r.Codes = append(r.Codes, codes...)
		}
	}
	return nil
}

func (r RestartEnds) String() string { return r.Text }

// exitCodes parses an exit code or a range of exit codes, from 1 to 255.
func exitCodes(text string) (codes []int, err error) {
	first, last, isRange := strings.Cut(text, "-")
	if !isRange {
		last = first
	}
	from, err1 := strconv.Atoi(first)
	to, err2 := strconv.Atoi(last)
	if err1 != nil || err2 != nil || from < 1 || to > 255 || from > to {
		return nil, fmt.Errorf("%q is not an exit code from 1 to 255, or a range of exit codes", text)
	}
	for code := from; code <= to; code++ {
		codes = append(codes, code)
	}
	return codes, nil
}

// RestartFence is the value of --restart-fence. It is "no", or the maximum time that a restart waits for
// processes that may still be running on lost nodes.
type RestartFence struct {
	Text  string // as given, in lower case; empty: not given
	Limit time.Duration
}

func (f *RestartFence) UnmarshalText(text []byte) (err error) {
	*f = RestartFence{Text: strings.ToLower(string(text))}
	if f.Text == "no" {
		return nil
	}
	f.Limit, err = parseSeconds(f.Text)
	return err
}

func (f RestartFence) String() string { return f.Text }
