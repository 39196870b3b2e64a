"""``sasl.jaas.config``: how it is parsed, and the errors about wrong texts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from pyclient.security.jaas import JaasError, parse

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (f'{PLAIN} required username="alice" password="secret";', {"username": "alice", "password": "secret"}),
        (f"{PLAIN} required username='alice' password=secret;", {"username": "alice", "password": "secret"}),
        (f'{PLAIN} REQUIRED\n  username="a=b;c"\n  password="d//e";\n', {"username": "a=b;c", "password": "d//e"}),
        (f'{PLAIN} required // who\n username = "a" /* and\n how */ user_x = "/*b*/" ;',
         {"username": "a", "user_x": "/*b*/"}),
        (f'{PLAIN} required password="say \\"it\\", \\\\ and \'that\'";', {"password": "say \"it\", \\ and 'that'"}),
        (f'{PLAIN} required password="a\\tb\\1012";', {"password": "a\tbA2"}),
        (f'{PLAIN} required user_bob="" "user_b@c"="d";', {"user_bob": "", "user_b@c": "d"}),
        (f"{PLAIN} optional;", {}),
        (f"{PLAIN} required username=a:b/c-d_e$f;", {"username": "a:b/c-d_e$f"}),
    ],
)
def test_options_of_a_login_module_are_parsed_as_by_java(text, options):
    module = parse(text)
    assert (module.class_name, module.name) == (PLAIN, "PlainLoginModule")
    assert module.options == options


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "CLASS required"),
        ("hush", "CLASS required"),
        (f'{PLAIN} password="hush";', "followed by one of required"),
        (f'{PLAIN} required password="hush"', "must end with ;"),
        (f'{PLAIN} required password="hush;', "is not closed"),
        (f'{PLAIN} required /* password="hush";', "is not closed"),
        (f"{PLAIN} required password=;", "option 1 is not"),
        (f"{PLAIN} required username=a hush;", "option 2 is not"),
        (f"{PLAIN} required password hush hush;", "option 1 is not"),
        (f"{PLAIN} required; {PLAIN} required password=hush;", "several login modules"),
        (f"{PLAIN} required password=x username=a password=hush;", "option 3 is a duplicate"),
        (f"{PLAIN} required user_a=x user_a=hush;", "option 2 is a duplicate"),
        (f"{PLAIN} required username=a user-b=hush;", r"option 2 is unknown: PlainLoginModule has username.*, user_\*"),
        (f"{PLAIN} required Password=hush;", "option 1 is unknown"),
        ("ScramLoginModule required user_a=hush;", "option 1 is unknown: ScramLoginModule has username, password, tok"),
        ("OAuthBearerLoginModule required clientid=hush;", "option 1 is unknown: .*clientId"),
    ],
)
def test_the_error_about_a_wrong_jaas_text_hides_secrets(text, told):
    with pytest.raises(JaasError, match=told) as caught:
        parse(text)
    assert "hush" not in str(caught.value)
    assert "hush" not in repr(caught.value)


def test_login_modules_of_others_may_have_any_option():
    kerberos = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true;"
    assert parse(kerberos).options == {"useKeyTab": "true"}
    with pytest.raises(JaasError, match=r"its option 1 is unknown: Krb5LoginModule has useKeyTab, keyTab"):
        parse(kerberos.replace("useKeyTab", "usekeytab"))


@given(some.text("aB. =;\"'/*\\\n", max_size=40))
def test_random_text_raises_only_jaas_error(text):
    try:
        parse(text)
    except JaasError:
        return
    assert text.rstrip().endswith(";") or "/" in text


def test_repr_of_a_login_module_hides_its_options():
    assert "hush" not in repr(parse(f"{PLAIN} required password=hush;"))
