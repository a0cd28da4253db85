package main

import (
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/package-url/packageurl-go"
	"golang.org/x/mod/module"
)

const certificatesModule = "golang.org/x/crypto/x509roots/fallback"

// writeSBOM writes the parts of a program or an image, in CycloneDX: programs and their compiled modules.
func (r *release) writeSBOM(name string, subject cdx.Component, programs []program) error {
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{
		Timestamp: r.time.Format(time.RFC3339), Supplier: &cdx.OrganizationalEntity{Name: "Plimsoll", URL: &[]string{source}},
		Component: &subject,
	}
	components := map[string]cdx.Component{}
	dependencies := map[string][]string{}
	depend := func(on string, c cdx.Component) {
		components[c.BOMRef] = c
		dependencies[on] = append(dependencies[on], c.BOMRef)
	}
	for _, p := range programs {
		own := r.programComponent(p)
		if own.BOMRef != subject.BOMRef {
			depend(subject.BOMRef, own)
		}
		depend(own.BOMRef, moduleComponent("stdlib", strings.Fields(strings.TrimPrefix(p.info.GoVersion, "go"))[0]))
		for _, m := range p.info.Deps {
			version := versionOf(m)
			depend(own.BOMRef, moduleComponent(version.Path, version.Version))
		}
	}
	if subject.Type == cdx.ComponentTypeContainer {
		depend(subject.BOMRef, moduleComponent(certificatesModule, certificatesVersion().Version))
	}

	bom.Components, bom.Dependencies = &[]cdx.Component{}, &[]cdx.Dependency{}
	for _, ref := range slices.Sorted(maps.Keys(components)) {
		*bom.Components = append(*bom.Components, components[ref])
	}
	for _, ref := range slices.Sorted(maps.Keys(dependencies)) {
		slices.Sort(dependencies[ref])
		refs := slices.Compact(dependencies[ref])
		*bom.Dependencies = append(*bom.Dependencies, cdx.Dependency{Ref: ref, Dependencies: &refs})
	}
	return create(filepath.Join(r.out, name+".cdx.json"), func(w io.Writer) error {
		return cdx.NewBOMEncoder(w, cdx.BOMFileFormatJSON).SetPretty(true).SetEscapeHTML(false).EncodeVersion(bom, cdx.SpecVersion1_6)
	})
}

// certificatesVersion returns the module with the certificates, of which this program has the version.
func certificatesVersion() module.Version {
	own, _ := debug.ReadBuildInfo()
	i := slices.IndexFunc(own.Deps, func(m *debug.Module) bool { return m.Path == certificatesModule })
	return versionOf(own.Deps[i])
}

func (r *release) programComponent(p program) cdx.Component {
	qualifiers := packageurl.QualifiersFromMap(map[string]string{"goos": p.os, "goarch": p.arch})
	purl := packageurl.NewPackageURL(
		packageurl.TypeGolang, "github.com/plimsoll-scheduler", "plimsoll", r.version, qualifiers, "cmd/"+p.name).
		ToString()
	return cdx.Component{
		BOMRef: purl, PackageURL: purl, Type: cdx.ComponentTypeApplication, Name: p.name, Version: r.version,
		Hashes:   &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: p.sha256}},
		Licenses: &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}},
	}
}

func moduleComponent(path, version string) cdx.Component {
	namespace, name := "", path
	if i := strings.LastIndex(path, "/"); i >= 0 {
		namespace, name = path[:i], path[i+1:]
	}
	purl := packageurl.NewPackageURL(packageurl.TypeGolang, namespace, name, version, nil, "").ToString()
	return cdx.Component{BOMRef: purl, PackageURL: purl, Type: cdx.ComponentTypeLibrary, Name: path, Version: version}
}

func imageComponent(tag, digest string) cdx.Component {
	qualifiers := packageurl.QualifiersFromMap(map[string]string{"repository_url": imageName, "tag": tag})
	purl := packageurl.NewPackageURL(packageurl.TypeOCI, "", "plimsoll", digest, qualifiers, "").ToString()
	return cdx.Component{
		BOMRef: purl, PackageURL: purl, Type: cdx.ComponentTypeContainer, Name: imageName, Version: fmt.Sprintf("%s@%s", tag, digest),
	}
}
