package option

import (
	"reflect"
	"slices"
	"strings"
)

// This file adds the options of features to the table of mpiexec. The package knows no feature: each registers a struct
// with the tags of the table (options.go), whose fields are options of the whole job.

// featureOptions contains, for each feature, the struct whose fields declare the feature's options, and the help texts
// of these options.
var featureOptions []struct {
	options reflect.Type
	texts   string
}

// Register adds the options of a feature to the table of mpiexec's options. The fields of Options declare them. texts
// contains their long help texts, in the format of texts/options.txt. Register is called during program
// initialization.
func Register[Options any](texts string) {
	featureOptions = append(featureOptions, struct {
		options reflect.Type
		texts   string
	}{reflect.TypeFor[Options](), texts})
}

// ValuesOf returns the values of a feature's options. Options is the struct that the feature has
// registered.
func ValuesOf[Options any](l Line) (values Options) {
	setFields(l.given, &values)
	return values
}

// featureTexts returns the long help texts of the options that features have registered, one string for each feature.
func featureTexts() (texts []string) {
	for _, f := range featureOptions {
		texts = append(texts, f.texts)
	}
	return texts
}

// addFeatureOptions adds the options of all features. Each is placed after the option that its tag "after" names. If
// that other option also belongs to a feature, the other option is added first.
func (t *Table) addFeatureOptions() {
	waiting := make(map[string]*Option)
	var all []*Option
	for _, f := range featureOptions {
		for i := range f.options.NumField() {
			o := optionOf(f.options, i, PerJob)
			all, waiting[o.Name] = append(all, o), o
		}
	}
	for _, o := range all {
		if waiting[o.Name] != nil {
			t.addFeatureOption(o, waiting)
		}
	}
}

// addFeatureOption adds option o of a feature to the table. waiting contains the options that have not been added
// yet. If o must follow one of them, addFeatureOption adds that one first.
func (t *Table) addFeatureOption(o *Option, waiting map[string]*Option) {
	delete(waiting, o.Name)
	for name := range strings.FieldsSeq(o.field.Tag.Get("after")) {
		if other := waiting[name]; other != nil {
			t.addFeatureOption(other, waiting)
		}
		if before, known := t.names[name]; known {
			t.insertOption(slices.Index(t.options, before.Option)+1, o)
			return
		}
	}
	panic(o.Dashed + ": there is no option that it stands behind")
}
