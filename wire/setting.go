package wire

import (
	"fmt"
	"math"
	"reflect"
)

/*
A Setting contains the values of a feature's options for one job. mpiexec's part of the feature reads a
Setting with SettingOf. Prepare carries the fields of the Setting to the feature's part in each helper.

	options --> Setting --Prepare--> helper
*/
type Setting = Message

// settingTypes lists the kinds of Settings by number. For each kind it contains a function that returns an empty
// Setting, and valid examples for tests.
var settingTypes [256]struct {
	new      func() Setting
	examples []Setting
}

// settingNumbers maps the type of a Setting to its number.
var settingNumbers = make(map[reflect.Type]int)

// maxSettings is the maximum number of Settings in a Prepare.
const maxSettings = len(settingTypes)

// RegisterSetting registers a feature's kind of setting. RegisterSetting must be called while the program is
// initialized. examples are valid settings for tests. No two kinds may have the same number.
func RegisterSetting[S any, P interface {
	*S
	Setting
}](number byte, examples ...Setting) {
	if settingTypes[number].new != nil {
		panic(fmt.Sprintf("two settings with the number %d", number))
	}
	settingTypes[number].new, settingTypes[number].examples = newMessage[S, P], examples
	settingNumbers[reflect.TypeFor[P]()] = int(number)
}

// ExampleSettings returns the example settings of all kinds, for tests.
func ExampleSettings() (all []Setting) {
	for _, t := range settingTypes {
		all = append(all, t.examples...)
	}
	return all
}

// SettingOf returns the Setting of type S in a list. found is false if the list contains no such Setting.
func SettingOf[S Setting](in []Setting) (s S, found bool) {
	for _, one := range in {
		if s, found = one.(S); found {
			return s, true
		}
	}
	return s, false
}

// settings reads or writes settings, each with its number. Two settings of the same kind make the message
// invalid.
func (c *Codec) settings(p *[]Setting) {
	var seen [maxSettings]bool
	List(c, p, Length{"settings", maxSettings}, func(c *Codec, s *Setting) {
		number := settingNumbers[reflect.TypeOf(*s)]
		c.Num(&number, Range{"setting", 0, math.MaxUint8})
		if c.Reading {
			if c.err == nil {
				c.Require(settingTypes[number].new != nil && !seen[number], "setting %d", number)
			}
			if c.err != nil {
				return
			}
			seen[number], *s = true, settingTypes[number].new()
		}
		(*s).Fields(c)
	})
}
