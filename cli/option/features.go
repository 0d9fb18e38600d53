package option

import (
	"reflect"
	"slices"
)

// This file adds the options of features to the table of mpiexec. The package knows no feature: each registers a struct
// with the tags of the table (options.go), whose fields are options of the whole job.

// featureOptions has the structs that features have registered, with the long help texts of their
// options.
var featureOptions []struct {
	options reflect.Type
	texts   string
}

// Register adds the fields of Options to the table of mpiexec's options. texts has their long help texts,
// in the form of texts/options.txt. Register is called while the program is initialized.
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

// featureTexts returns the long help texts of all options of features.
func featureTexts() (texts []string) {
	for _, f := range featureOptions {
		texts = append(texts, f.texts)
	}
	return texts
}

// addFeatureOptions adds the options of a feature's struct, each behind the one that its tag "after" names.
func (t *Table) addFeatureOptions(of reflect.Type) {
	for i := range of.NumField() {
		o := optionOf(of, i, PerJob)
		at := slices.Index(t.options, t.names[o.field.Tag.Get("after")].Option) + 1
		t.insertOption(at, o)
	}
}
