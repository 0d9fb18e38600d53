package message

import (
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"remshell/pmiserver/pmix/bfrops"
)

// Trace shows a request to people, on one line (PMIX-25):
//
//	FENCE [rs-..@1:*] collect
//	COMMIT remote btl.tcp.4.1=0x0a0000010000... (60 bytes)
//
// Values are cut after 32 bytes, and namespaces have no random digits. What is not a plain word
// is quoted.
func Trace(r Request) string {
	line := traceLine{NameOf(r)}
	r.trace(&line)
	return strings.Join(line, " ")
}

// requestNames are what the requests are called on the page.
var requestNames = func() map[reflect.Type]string {
	names := make(map[reflect.Type]string)
	for _, c := range commands {
		if c.make != nil {
			names[reflect.TypeOf(c.make())] = c.name
		}
	}
	return names
}()

// NameOf returns what a request is called: FENCE.
func NameOf(r Request) string { return requestNames[reflect.TypeOf(r)] }

// namespaceSecret are those in the name of a namespace, which let others in. Most jobs trace nothing.
var namespaceSecret = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\brs-[0-9a-f]{4,}([@-])`) })

// HideSecrets takes the random digits out of all namespaces that a text names: rs-..@1.
func HideSecrets(text string) string { return namespaceSecret().ReplaceAllString(text, "rs-..$1") }

// Limits of what a trace shows.
const (
	maxTracedBytes = 32 // of a value
	maxTracedItems = 8  // of a list
)

// A traceLine is the words of a line.
type traceLine []string

func (l *traceLine) word(format string, args ...any) { *l = append(*l, fmt.Sprintf(format, args...)) }

// addFirst adds the first of some things, and how many more there are.
func addFirst[T any](l *traceLine, all []T, show func(T) string) {
	for _, one := range all[:min(len(all), maxTracedItems)] {
		*l = append(*l, show(one))
	}
	if more := len(all) - maxTracedItems; more > 0 {
		l.word("and %d more", more)
	}
}

func (l *traceLine) procs(procs []bfrops.Proc) {
	var inner traceLine
	addFirst(&inner, procs, procText)
	l.word("[%s]", strings.Join(inner, " "))
}

func (l *traceLine) options(options Options) { addFirst(l, options, optionText) }
func (l *traceLine) keys(keys []string)      { addFirst(l, keys, quoteUnlessPlain) }

func (l *traceLine) events(codes []int32) {
	addFirst(l, codes, func(code int32) string { return strconv.Itoa(int(code)) })
}

func (l *traceLine) pairs(part CommitPart) {
	l.word("%v", part.Scope)
	var pairs []bfrops.Pair
	for r := bfrops.NewReader(part.Pairs); r.More(); {
		pairs = append(pairs, r.Pair())
	}
	addFirst(l, pairs, func(p bfrops.Pair) string { return quoteUnlessPlain(p.Key) + "=" + valueText(p.Value) })
}

func procText(p bfrops.Proc) string {
	if p.Rank == bfrops.Wildcard {
		return quoteUnlessPlain(p.Namespace) + ":*"
	}
	return fmt.Sprintf("%s:%d", quoteUnlessPlain(p.Namespace), p.Rank)
}

// optionText shows an option without the word that all of them begin with, and one that holds by
// its name alone.
func optionText(i bfrops.Info) string {
	key := quoteUnlessPlain(strings.TrimPrefix(i.Key, "pmix."))
	if v := valueText(i.Value); v != "true" {
		return key + "=" + v
	}
	return key
}

// valueText shows a value as what it is, or else its bytes.
func valueText(v bfrops.Value) string {
	if text, ok := v.Text(); ok {
		return quote(text)
	}
	if p, ok := v.Proc(); ok {
		return procText(p)
	}
	if n, ok := v.Number(); ok {
		if v.Type == bfrops.Bool {
			return strconv.FormatBool(n != 0)
		}
		return strconv.FormatInt(n, 10)
	}
	if blob, ok := v.Blob(); ok {
		return hex(blob)
	}
	return hex(v.Bytes)
}

func hex(b []byte) string {
	return cutBytes(b, func(b []byte) string { return fmt.Sprintf("0x%x", b) })
}

func quote(text string) string {
	return cutBytes([]byte(HideSecrets(text)), func(b []byte) string { return strconv.Quote(string(b)) })
}

// cutBytes shows the beginning of what is too long, and how long that is.
func cutBytes(b []byte, show func([]byte) string) string {
	if len(b) <= maxTracedBytes {
		return show(b)
	}
	return fmt.Sprintf("%s... (%d bytes)", show(b[:maxTracedBytes]), len(b))
}

// quoteUnlessPlain quotes what is not a plain word.
func quoteUnlessPlain(word string) string {
	word = HideSecrets(word)
	if word == "" || len(strconv.Quote(word)) != len(word)+len(`""`) || strings.ContainsAny(word, " =") {
		return quote(word)
	}
	return word
}

func (s Scope) String() string {
	if s == ScopeLocal {
		return "local"
	}
	return "remote"
}
