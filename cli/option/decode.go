package option

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/alecthomas/kong"

	"remshell/batch"
	"remshell/usererr"
)

// This file converts the text of a value into the type of its field. Each text goes through one of kong's
// mappers once; the result is kept with the option (doc/adr/0002).

// newMappers returns functions with which kong, the parser library, decodes values. It replaces kong's own
// functions for numbers and strings.
func newMappers() *kong.Registry {
	return kong.NewRegistry().RegisterDefaults().
		RegisterKind(reflect.Int, kong.MapperFunc(func(ctx *kong.DecodeContext, target reflect.Value) error {
			n, err := parseNumber(ctx.Scan.Pop().String())
			target.SetInt(int64(n))
			return err
		})).
		RegisterKind(reflect.String, kong.MapperFunc(func(ctx *kong.DecodeContext, target reflect.Value) error {
			target.SetString(ctx.Scan.Pop().String())
			return nil
		}))
}

// decodeVerbatim passes the text to UnmarshalText byte for byte (rule ENV-7). The default function of the
// library kong uses JSON, which replaces each byte that is not UTF-8 by U+FFFD.
func decodeVerbatim(ctx *kong.DecodeContext, target reflect.Value) error {
	return target.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(ctx.Scan.Pop().String()))
}

// mapperFor returns the function that decodes values of a type.
func (t *Table) mapperFor(typ reflect.Type) kong.Mapper {
	if reflect.PointerTo(typ).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return kong.MapperFunc(decodeVerbatim)
	}
	return t.mappers.ForType(typ)
}

// decode decodes a value of an option. The result has the type of the option's field. If the option can be given
// several times, the result has the type of one element of the field.
func (t *Table) decode(o *Option, text string) (reflect.Value, error) {
	if o.Words != nil {
		if !o.allowsWord(text) {
			if other := launcherInsteadOf(text); other != "" && o.Name == "launcher" {
				return reflect.Value{}, &usererr.Error{Text: "the launcher " + text + " does not pass standard input to its programs", Remedy: "use -launcher " + other}
			}
			if system, product := batch.ByProduct(text); system != nil && o.Name == "rmk" {
				return reflect.Value{}, &usererr.Error{Text: fmt.Sprintf("%s is a kind of %s", product, system.Title), Remedy: "use -rmk " + system.Name}
			}
			return reflect.Value{}, fmt.Errorf("%q is not one of %s", text, strings.Join(o.Words, ", "))
		}
		text = o.canonicalValue(text)
	}
	of := o.field.Type
	pointer := of.Kind() == reflect.Pointer
	if o.accumulates || pointer {
		of = of.Elem()
	}
	value := reflect.New(of)
	word := kong.Token{Value: text, Type: kong.FlagValueToken}
	err := t.mapperFor(of).Decode(&kong.DecodeContext{Scan: kong.ScanFromTokens(word)}, value.Elem())
	if err == nil {
		err = o.checkBounds(value.Elem(), text)
	}
	if pointer {
		return value, err
	}
	return value.Elem(), err
}

// checkBounds returns an error for a value that is too small or empty.
func (o *Option) checkBounds(value reflect.Value, text string) error {
	switch v := value.Interface().(type) {
	case int:
		if o.zeroAllowed && isZeroNumber(text) {
			return nil
		}
		return atLeast(o.minimum, v)
	case Seconds:
		if v == 0 && o.minimum > 0 {
			return fmt.Errorf("%q is too short; the time must be longer than 0", text)
		}
	}
	if value.Kind() == reflect.String && text == "" {
		return errors.New("the value is empty")
	}
	return nil
}

// allowsWord reports whether text is one of the keywords that the option allows, ignoring case.
func (o *Option) allowsWord(text string) bool {
	return slices.ContainsFunc(o.Words, func(word string) bool { return strings.EqualFold(word, text) })
}

// canonicalValue returns a value in a standard form, so that equal values are equal strings: 010 becomes 10, and
// keywords are spelled as in the table of options.
func (o *Option) canonicalValue(text string) string {
	if n, err := strconv.Atoi(text); err == nil && o.field.Type.Kind() == reflect.Int {
		return strconv.Itoa(n)
	}
	for _, w := range o.Words {
		if strings.EqualFold(w, text) {
			return w
		}
	}
	return text
}

// setFields stores the values of options in the fields that declare them. target points to a struct.
func setFields(options []GivenOption, target any) {
	into := reflect.ValueOf(target).Elem()
	for _, g := range options {
		if g.declaredIn != into.Type() {
			continue
		}
		field := into.FieldByIndex(g.field.Index)
		if g.accumulates {
			field.Set(reflect.Append(field, g.decoded))
		} else {
			field.Set(g.decoded)
		}
	}
}
