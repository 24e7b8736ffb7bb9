# certificates.bash -- a CA of the test, and certificates that it signs, by GnuTLS' certtool.
# shellcheck shell=bash disable=SC2034 # variables are used by the tests

needs_certtool() { command -v certtool >/dev/null || skip "certificates need certtool, of GnuTLS"; }

# make_ca NAME: NAME.pem and NAME.key.
make_ca() {
    new_key "$1" || return 1
    printf 'cn = "%s"\nca\ncert_signing_key\nexpiration_days = 10\n' "$1" >template
    certtool --generate-self-signed --load-privkey "$1.key" --template template --outfile "$1.pem" 2>>certtool.log
}

# make_certificate CA NAME [LINE...]: NAME.pem and NAME.key, signed by that CA; lines of certtool's template, beside cn = NAME and
# ten days. Lines with a date of their own leave out the ten days.
make_certificate() {
    local ca=$1 name=$2
    shift 2
    new_key "$name" || return 1
    printf '%s\n' "signing_key" "$@" >template
    [[ "$*" == *"cn = "* ]] || echo "cn = \"$name\"" >>template
    [[ "$*" == *expiration_date* ]] || echo 'expiration_days = 10' >>template
    certtool --generate-certificate --load-privkey "$name.key" --load-ca-certificate "$ca.pem" --load-ca-privkey "$ca.key" \
        --template template --outfile "$name.pem" 2>>certtool.log
}

new_key() { (umask 077 && certtool --generate-privkey --ecc --outfile "$1.key" 2>>certtool.log); }

LONG_AGO=('activation_date = "2020-01-01 00:00:00 UTC"' 'expiration_date = "2021-01-01 00:00:00 UTC"')
