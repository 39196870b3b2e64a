"""How principals of Kerberos become names of users, with the examples of Kafka's documents and of its own tests."""

from __future__ import annotations

import pytest

from pybroker.security.short_names import ShortNames

REALM = "REALM.COM"
APP = ["RULE:[1:$1](App\\..*)s/App\\.(.*)/$1/g", "RULE:[2:$1](App\\..*)s/App\\.(.*)/$1/g", "DEFAULT"]
SMALL = ["RULE:[1:$1]/L", "RULE:[2:$1](Test.*)s/ABC///L", "RULE:[2:$1](ABC.*)s/ABC/XYZ/g/L",
         "RULE:[2:$1](App\\..*)s/App\\.(.*)/$1/g/L", "RULE:[2:$1]/L", "DEFAULT"]
LARGE = [rule.replace("/L", "/U") for rule in SMALL]
DOMAIN = ["RULE:[1:$1@$0](.*@MYDOMAIN.COM)s/@.*//", "DEFAULT"]


@pytest.mark.parametrize(
    ("rules", "principal", "user"),
    [
        (["DEFAULT"], f"alice@{REALM}", "alice"),
        (["DEFAULT"], f"alice/admin@{REALM}", "alice"),
        (APP, f"App.service-name/example.com@{REALM}", "service-name"),
        (APP, f"App.service-name@{REALM}", "service-name"),
        (APP, f"user/host@{REALM}", "user"),
        (SMALL, f"User@{REALM}", "user"),
        (SMALL, f"TestABC/host@{REALM}", "test"),
        (SMALL, f"ABC_User_ABC/host@{REALM}", "xyz_user_xyz"),
        (SMALL, f"App.SERVICE-name/example.com@{REALM}", "service-name"),
        (SMALL, f"User/root@{REALM}", "user"),
        (LARGE, f"User@{REALM}", "USER"),
        (LARGE, f"TestABC/host@{REALM}", "TEST"),
        (DOMAIN, "carol@MYDOMAIN.COM", "carol"),
        (DOMAIN, f"dave@{REALM}", "dave"),
        (["RULE:[2:$1;$2](^.*;admin$)s/;admin$//", "DEFAULT"], f"eve/admin@{REALM}", "eve"),
        (["RULE:[2:$2.$1.$0]"], f"a/b@{REALM}", f"b.a.{REALM}"),
        (["RULE:[1:$1](.*)s/a/b/"], f"banana@{REALM}", "bbnana"),
        (["RULE:[1:$1](.*)s/a/b/g"], f"banana@{REALM}", "bbnbnb"),
        (["RULE:[1:$1](b.*)", "RULE:[1:x$1]"], f"alice@{REALM}", "xalice"),
    ],
)
def test_the_first_rule_that_is_about_a_principal_names_its_user(rules: list[str], principal: str, user: str) -> None:
    assert ShortNames(rules, REALM).user(principal) == user


@pytest.mark.parametrize(
    ("rules", "principal", "says"),
    [
        (["DEFAULT"], "alice@OTHER.COM", "no rule of sasl.kerberos.principal.to.local.rules matches"),
        (["RULE:[2:$1]"], f"alice@{REALM}", "no rule of"),
        (["RULE:[1:$1](A.*)"], f"bob@{REALM}", "no rule of"),
        (["RULE:[1:$1]s/.*//"], f"bob@{REALM}", "no rule of"),
        (["RULE:[1:$1@$0]", "DEFAULT"], f"alice@{REALM}", "contains / or @"),
        (["DEFAULT"], "alice", "does not have the form"),
        (["DEFAULT"], f"a/b/c@{REALM}", "does not have the form"),
        (["DEFAULT"], f"alice@x@{REALM}", "does not have the form"),
        (["DEFAULT"], f"admin\\/x@{REALM}", "does not have the form"),
        (["DEFAULT"], f"@{REALM}", "does not have the form"),
    ],
)
def test_a_principal_without_a_rule_has_no_name(rules: list[str], principal: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        ShortNames(rules, REALM).user(principal)


def test_without_a_default_realm_only_rules_with_a_format_apply() -> None:
    with pytest.raises(ValueError, match="no rule of"):
        ShortNames(["DEFAULT"], "").user(f"alice@{REALM}")


@pytest.mark.parametrize(
    "rule",
    ["default", "DEFAUL", "DEFAULT/L", "DEFAULT/g", "rule:[1:$1]", "rule:[1:$1]/L/U", "rule:[1:$1]/L", "RULE:[1:$1]/l",
     "RULE:[2:$1](ABC.*)s/ABC/XYZ/L/g", "RULE:[1:$1]/LU", "RULE:[:$1]", "RULE:[1:$2]", "RULE:[1:$]", "RULE:[1:$1](*)",
     "RULE:[1:$1]s/(/x/", ""],
)  # fmt: skip
def test_an_invalid_rule_is_refused(rule: str) -> None:
    with pytest.raises(ValueError, match=r"neither DEFAULT nor|not a regular expression|there are"):
        ShortNames([rule], REALM)
