// Package webpage has what all HTML pages share: the theme, the base of the scripts, and hashes for a Content-Security-Policy.
package webpage

import (
	"crypto/sha256"
	_ "embed" // the files below
	"encoding/base64"
)

// Theme is the base of a page's style: colors of both schemes, and elements that all pages have.
//
//go:embed theme.css
var Theme string

// Script is the base of a page's script: it defines the constant base. The page has an element with the id tip.
//
//go:embed base.js
var Script string

// Hash returns the source of a Content-Security-Policy that allows one inline script or style.
func Hash(content string) string {
	sum := sha256.Sum256([]byte(content))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}
