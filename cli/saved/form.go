package saved

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
)

// This file encodes Go values as JSON and decodes them without loss. encoding/json would lose bytes of arguments and
// variables that are not UTF-8, and the difference between a nil and an empty list. Also, some types have MarshalJSON or
// MarshalText methods for --report and the command line, which must not be used here.
//
//	string   "text"; {"base64": "..."} if it is not UTF-8
//	struct   an object: fields by their names, or as a json tag says; those with a zero value are left out
//	slice    an array; map: an object; time: as RFC 3339 has it; nil: null

// maxList is the largest allowed length of a list. Without it, a short file could cause a large allocation.
const maxList = 1 << 18

// timeType is the type time.Time, which is encoded as text and not as a struct.
var timeType = reflect.TypeFor[time.Time]()

// appendValue appends the JSON encoding of v. It supports structs, pointers, slices, maps with string keys, strings,
// booleans, float64 and signed integers. It panics if v has another type.
func appendValue(b *bytes.Buffer, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == timeType {
			appendText(b, v.Interface().(time.Time).Format(time.RFC3339Nano))
			return
		}
		appendStruct(b, v)
	case reflect.Pointer:
		if v.IsNil() {
			b.WriteString("null")
			return
		}
		appendValue(b, v.Elem())
	case reflect.Slice:
		appendSlice(b, v)
	case reflect.Map:
		appendMap(b, v)
	case reflect.String:
		appendText(b, v.String())
	case reflect.Bool:
		b.WriteString(strconv.FormatBool(v.Bool()))
	case reflect.Float64:
		b.WriteString(strconv.FormatFloat(v.Float(), 'g', -1, 64))
	default:
		b.WriteString(strconv.FormatInt(v.Int(), 10))
	}
}

func appendText(b *bytes.Buffer, s string) {
	if !utf8.ValidString(s) {
		b.WriteString(`{"base64":"` + base64.StdEncoding.EncodeToString([]byte(s)) + `"}`)
		return
	}
	quoted := json.NewEncoder(b)
	quoted.SetEscapeHTML(false)
	quoted.Encode(s) // a newline follows, which is white space
}

func appendStruct(b *bytes.Buffer, v reflect.Value) {
	b.WriteByte('{')
	separator := ""
	for i := range v.NumField() {
		field := v.Type().Field(i)
		_, tagged := field.Tag.Lookup("json")
		if !field.IsExported() || v.Field(i).IsZero() && !tagged {
			continue
		}
		b.WriteString(separator)
		appendText(b, fieldKey(field))
		b.WriteByte(':')
		appendValue(b, v.Field(i))
		separator = ","
	}
	b.WriteByte('}')
}

func fieldKey(field reflect.StructField) string {
	if name := field.Tag.Get("json"); name != "" {
		return name
	}
	return field.Name
}

func appendSlice(b *bytes.Buffer, v reflect.Value) {
	if v.IsNil() {
		b.WriteString("null")
		return
	}
	b.WriteByte('[')
	for i := range v.Len() {
		if i > 0 {
			b.WriteByte(',')
		}
		appendValue(b, v.Index(i))
	}
	b.WriteByte(']')
}

func appendMap(b *bytes.Buffer, v reflect.Value) {
	if v.IsNil() {
		b.WriteString("null")
		return
	}
	values := make(map[string]reflect.Value, v.Len())
	for name, value := range v.Seq2() {
		values[name.String()] = value
	}
	b.WriteByte('{')
	for i, name := range slices.Sorted(maps.Keys(values)) {
		if i > 0 {
			b.WriteByte(',')
		}
		appendText(b, name)
		b.WriteByte(':')
		appendValue(b, values[name])
	}
	b.WriteByte('}')
}

// readValue sets target from decoded JSON. The argument at is the path of the value in the file, for error messages.
func readValue(target reflect.Value, decoded any, at string) error {
	if decoded == nil {
		target.SetZero()
		return nil
	}
	switch target.Kind() {
	case reflect.Struct:
		if target.Type() == timeType {
			return readTime(target, decoded, at)
		}
		return readStruct(target, decoded, at)
	case reflect.Pointer:
		target.Set(reflect.New(target.Type().Elem()))
		return readValue(target.Elem(), decoded, at)
	case reflect.Slice:
		return readSlice(target, decoded, at)
	case reflect.Map:
		return readMap(target, decoded, at)
	case reflect.String:
		s, err := readText(decoded, at)
		target.SetString(s)
		return err
	case reflect.Bool:
		yes, ok := decoded.(bool)
		target.SetBool(yes)
		return kindError(ok, at, "true or false")
	}
	return readNumber(target, decoded, at)
}

// kindError returns nil if ok is true. Otherwise it returns an error which says that a value must be of the given kind.
// The argument at is the path of the value in the file.
func kindError(ok bool, at, kind string) error {
	if ok {
		return nil
	}
	return fmt.Errorf("%s: the value must be %s", at, kind)
}

func readStruct(target reflect.Value, decoded any, at string) error {
	object, ok := decoded.(map[string]any)
	if !ok {
		return kindError(false, at, "an object")
	}
	for i := range target.NumField() {
		field := target.Type().Field(i)
		value, found := object[fieldKey(field)]
		if !found || !field.IsExported() {
			continue
		}
		if err := readValue(target.Field(i), value, at+"."+fieldKey(field)); err != nil {
			return err
		}
	}
	return nil
}

func readSlice(target reflect.Value, decoded any, at string) error {
	list, ok := decoded.([]any)
	if !ok || len(list) > maxList {
		return kindError(false, at, fmt.Sprintf("a list of at most %d elements", maxList))
	}
	target.Set(reflect.MakeSlice(target.Type(), len(list), len(list)))
	for i, value := range list {
		if err := readValue(target.Index(i), value, fmt.Sprintf("%s[%d]", at, i)); err != nil {
			return err
		}
	}
	return nil
}

func readMap(target reflect.Value, decoded any, at string) error {
	object, ok := decoded.(map[string]any)
	if !ok {
		return kindError(false, at, "an object")
	}
	target.Set(reflect.MakeMapWithSize(target.Type(), len(object)))
	for name, value := range object {
		element := reflect.New(target.Type().Elem()).Elem()
		if err := readValue(element, value, at+"."+name); err != nil {
			return err
		}
		target.SetMapIndex(reflect.ValueOf(name).Convert(target.Type().Key()), element)
	}
	return nil
}

func readText(decoded any, at string) (string, error) {
	switch decoded := decoded.(type) {
	case string:
		return decoded, nil
	case map[string]any:
		coded, ok := decoded["base64"].(string)
		plain, err := base64.StdEncoding.DecodeString(coded)
		return string(plain), kindError(ok && err == nil, at, "a string, or an object with the key base64")
	}
	return "", kindError(false, at, "a string")
}

func readTime(target reflect.Value, decoded any, at string) error {
	s, ok := decoded.(string)
	when, err := time.Parse(time.RFC3339Nano, s)
	target.Set(reflect.ValueOf(when))
	return kindError(ok && err == nil, at, "a time as 2006-01-02T15:04:05Z")
}

func readNumber(target reflect.Value, decoded any, at string) error {
	number, ok := decoded.(json.Number)
	if target.Kind() == reflect.Float64 {
		x, err := number.Float64()
		target.SetFloat(x)
		return kindError(ok && err == nil, at, "a number")
	}
	n, err := strconv.ParseInt(number.String(), 10, 64)
	if fits := ok && err == nil && !target.OverflowInt(n); !fits {
		return kindError(false, at, "a whole number")
	}
	target.SetInt(n)
	return nil
}
