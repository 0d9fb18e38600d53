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

// Trace formats a request as one line for people to read (rule PMIX-25):
//
//	FENCE [rs-..@1:*] collect
//	COMMIT remote btl.tcp.4.1=0x0a0000010000... (60 bytes)
//
// Values are cut after 32 bytes, and the random digits of namespaces are hidden. A text that is not a plain word is
// quoted.
func Trace(r Request) string {
	line := traceLine{NameOf(r)}
	r.trace(&line)
	return strings.Join(line, " ")
}

// requestNames maps the type of each request to the name of its command.
var requestNames = func() map[reflect.Type]string {
	names := make(map[reflect.Type]string)
	for _, c := range commands {
		if c.make != nil {
			names[reflect.TypeOf(c.make())] = c.name
		}
	}
	return names
}()

// NameOf returns the command name of a request, such as FENCE.
func NameOf(r Request) string { return requestNames[reflect.TypeOf(r)] }

// namespaceSecret matches the random digits in a namespace, which a client uses to authenticate.
var namespaceSecret = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\brs-[0-9a-f]{4,}([@-])`) })

// HideSecrets replaces the random digits of each namespace in text by dots, as in rs-..@1.
func HideSecrets(text string) string { return namespaceSecret().ReplaceAllString(text, "rs-..$1") }

// These are the maximum number of bytes of a value, and of elements of a list, that a trace line shows.
const (
	maxTracedBytes = 32 // bytes of a value
	maxTracedItems = 8  // elements of a list
)

// A traceLine contains the words of a trace line.
type traceLine []string

func (l *traceLine) word(format string, args ...any) { *l = append(*l, fmt.Sprintf(format, args...)) }

// addFirst appends the elements of a list to a trace line, at most maxTracedItems of them, and then the number of
// elements that it has left out. format formats one element.
func addFirst[T any](l *traceLine, all []T, format func(T) string) {
	for _, one := range all[:min(len(all), maxTracedItems)] {
		*l = append(*l, format(one))
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

// optionText formats an option. It leaves out the prefix "pmix.", and also the value if the value is true.
func optionText(i bfrops.Info) string {
	key := quoteUnlessPlain(strings.TrimPrefix(i.Key, "pmix."))
	if v := valueText(i.Value); v != "true" {
		return key + "=" + v
	}
	return key
}

// valueText formats a value according to its type. If the type is unknown, it formats the bytes in
// hexadecimal.
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

// cutBytes formats up to maxTracedBytes bytes. If there are more, it appends their total number.
func cutBytes(b []byte, format func([]byte) string) string {
	if len(b) <= maxTracedBytes {
		return format(b)
	}
	return fmt.Sprintf("%s... (%d bytes)", format(b[:maxTracedBytes]), len(b))
}

// quoteUnlessPlain hides secrets in a word. It puts the word in quotes if it is empty or contains a blank, "=" or a
// character that strconv.Quote escapes.
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
